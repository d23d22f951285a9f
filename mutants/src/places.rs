//! The places of a Rust file that mutants change, found in its syntax.

use std::ops::Range;

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprBinary, ExprCall, ExprClosure, ExprConst, ExprIf,
    ExprLit, ExprMacro, ExprMethodCall, ExprRepeat, ExprUnary, ExprWhile, GenericArgument,
    ImplItem, Item, Lit, Pat, ReturnType, Signature, Stmt, TraitItem, Type, UnOp,
};

/// A place of a file, and the texts that mutants put there.
pub(crate) struct Place {
    /// The range of its bytes in the file.
    pub(crate) range: Range<usize>,
    /// The line of its beginning, from 1 on.
    pub(crate) line: usize,
    pub(crate) form: Form,
    /// The texts, in the order of their mutants.
    pub(crate) texts: Vec<String>,
}

/// The form of a place that holds all its texts at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An expression, whose texts are expressions.
    Expression,
    /// A statement, whose texts are statements.
    Statement,
    /// The beginning of a function's body, whose texts are results.
    Body,
    /// The end of an arm's pattern: without its arm, a value falls through to the last one, which
    /// takes all.
    Arm,
}

/// Returns all places of a file, outer ones before those in them.
///
/// # Errors
/// Returns an error if the text is not Rust.
pub(crate) fn of(text: &str) -> syn::Result<Vec<Place>> {
    let file = syn::parse_file(text)?;
    let mut search = Search { text, places: Vec::new() };
    search.visit_file(&file);
    Ok(search.places)
}

struct Search<'t> {
    text: &'t str,
    places: Vec<Place>,
}

impl Search<'_> {
    fn add(&mut self, span: Span, form: Form, texts: Vec<String>) {
        if !texts.is_empty() {
            let (range, line) = (span.byte_range(), span.start().line);
            self.places.push(Place { range, line, form, texts });
        }
    }

    fn text_of(&self, node: &impl Spanned) -> &str {
        &self.text[node.span().byte_range()]
    }

    /// Adds a condition that always holds, or never.
    fn add_condition(&mut self, condition: &Expr, texts: &[&str]) {
        if !has_let(condition) && !matches!(condition, Expr::Lit(_)) {
            let texts = texts.iter().map(|&text| text.to_owned()).collect();
            self.add(condition.span(), Form::Expression, texts);
        }
    }

    fn add_body(&mut self, signature: &Signature, block: &Block) {
        let is_empty = block.stmts.is_empty();
        if signature.constness.is_none() && !is_empty {
            let mut texts = results_of(&signature.output);
            // The function's own result is no mutant.
            if let [Stmt::Expr(only, None)] = &block.stmts[..] {
                texts.retain(|text| !text.ends_with(self.text_of(only)));
            }
            self.add(block.stmts[0].span(), Form::Body, texts);
        }
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, is_const) = match item {
            Item::Fn(it) => (&it.attrs, it.sig.constness.is_some()),
            Item::Mod(it) => (&it.attrs, false),
            Item::Impl(it) => (&it.attrs, false),
            Item::Trait(it) => (&it.attrs, false),
            _ => return,
        };
        if is_const || is_left_out(attributes) {
            return;
        }
        if let Item::Fn(it) = item {
            self.add_body(&it.sig, &it.block);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let ImplItem::Fn(it) = item else { return };
        if it.sig.constness.is_none() && !is_left_out(&it.attrs) {
            self.add_body(&it.sig, &it.block);
            self.visit_block(&it.block);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        let TraitItem::Fn(it) = item else { return };
        if let Some(block) = &it.default
            && !is_left_out(&it.attrs)
        {
            self.add_body(&it.sig, block);
            self.visit_block(block);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(expression, Some(_)) = statement {
            let mut texts = Vec::new();
            match expression {
                Expr::MethodCall(_)
                | Expr::Call(_)
                | Expr::Assign(_)
                | Expr::Await(_)
                | Expr::Try(_) => {
                    texts.push(String::new());
                }
                Expr::Binary(it) => {
                    texts.extend(assigned(&it.op).map(|sign| with_sign(self, it, sign) + ";"));
                    texts.push(String::new());
                }
                _ => {}
            }
            self.add(statement.span(), Form::Statement, texts);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, it: &'ast ExprIf) {
        self.add_condition(&it.cond, &["true", "false"]);
        visit::visit_expr_if(self, it);
    }

    fn visit_expr_while(&mut self, it: &'ast ExprWhile) {
        self.add_condition(&it.cond, &["false"]);
        visit::visit_expr_while(self, it);
    }

    fn visit_expr_match(&mut self, it: &'ast syn::ExprMatch) {
        if it
            .arms
            .last()
            .is_some_and(|last| matches!(last.pat, Pat::Wild(_)) && last.guard.is_none())
        {
            for arm in &it.arms[..it.arms.len() - 1] {
                if arm.guard.is_none() {
                    self.add(arm.pat.span(), Form::Arm, vec![String::new()]);
                }
            }
        }
        visit::visit_expr_match(self, it);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.add_condition(guard, &["true", "false"]);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_binary(&mut self, it: &'ast ExprBinary) {
        let is_chain = matches!(it.op, BinOp::And(_)) && (has_let(&it.left) || has_let(&it.right));
        if !is_chain {
            let texts = signs(&it.op).iter().map(|sign| with_sign(self, it, sign)).collect();
            self.add(it.span(), Form::Expression, texts);
        }
        visit::visit_expr_binary(self, it);
    }

    fn visit_expr_unary(&mut self, it: &'ast ExprUnary) {
        if let UnOp::Not(_) = it.op {
            let text = self.text_of(&it.expr).to_owned();
            self.add(it.span(), Form::Expression, vec![text]);
        }
        visit::visit_expr_unary(self, it);
    }

    fn visit_expr_lit(&mut self, it: &'ast ExprLit) {
        if let Lit::Bool(value) = &it.lit {
            self.add(it.span(), Form::Expression, vec![(!value.value).to_string()]);
        }
    }

    fn visit_expr_call(&mut self, it: &'ast ExprCall) {
        if it.func.to_token_stream().to_string() == "Some" {
            self.add(it.span(), Form::Expression, vec!["None".to_owned()]);
        }
        visit::visit_expr_call(self, it);
    }

    fn visit_expr_method_call(&mut self, it: &'ast ExprMethodCall) {
        let name = it.method.to_string();
        let mut texts = Vec::new();
        if let Some(other) = other_method(&name) {
            let (whole, method) = (it.span().byte_range(), it.method.span().byte_range());
            texts.push(
                [&self.text[whole.start..method.start], other, &self.text[method.end..whole.end]]
                    .concat(),
            );
        } else if name.starts_with("is_")
            || name.starts_with("has_")
            || name.starts_with("contains")
        {
            texts.push(format!("!{}", self.text_of(it)));
        }
        self.add(it.span(), Form::Expression, texts);
        visit::visit_expr_method_call(self, it);
    }

    fn visit_expr_macro(&mut self, it: &'ast ExprMacro) {
        if it.mac.path.is_ident("matches") {
            self.add(it.span(), Form::Expression, vec![format!("!{}", self.text_of(it))]);
        }
    }

    fn visit_expr_closure(&mut self, it: &'ast ExprClosure) {
        self.visit_expr(&it.body);
    }

    // Constants are computed before any mutant is chosen, and types and patterns are no mutants.
    fn visit_expr_repeat(&mut self, it: &'ast ExprRepeat) {
        self.visit_expr(&it.expr);
    }

    fn visit_expr_const(&mut self, _: &'ast ExprConst) {}
    fn visit_generic_argument(&mut self, _: &'ast GenericArgument) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

/// Returns whether an item is left out: it is for tests, for models of threads, or for doc tests.
fn is_left_out(attributes: &[Attribute]) -> bool {
    // A function is a place also if its documentation speaks of tests, or of the latest.
    attributes.iter().filter(|it| !it.path().is_ident("doc")).any(|it| {
        let text = it.to_token_stream().to_string();
        text.contains("test")
            || text.contains("loom") && !text.contains("not (loom")
            || text.contains("doctest")
    })
}

/// Returns whether a condition contains a pattern (`let`).
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(it) => {
            matches!(it.op, BinOp::And(_)) && (has_let(&it.left) || has_let(&it.right))
        }
        _ => false,
    }
}

fn with_sign(search: &Search, it: &ExprBinary, sign: &str) -> String {
    let (whole, place) = (it.span().byte_range(), it.op.span().byte_range());
    [&search.text[whole.start..place.start], sign, &search.text[place.end..whole.end]].concat()
}

fn signs(sign: &BinOp) -> &'static [&'static str] {
    match sign {
        BinOp::Lt(_) => &["<=", ">"],
        BinOp::Le(_) => &["<", ">="],
        BinOp::Gt(_) => &[">=", "<"],
        BinOp::Ge(_) => &[">", "<="],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["/"],
        BinOp::Div(_) | BinOp::Rem(_) => &["*"],
        _ => &[],
    }
}

fn assigned(sign: &BinOp) -> Option<&'static str> {
    match sign {
        BinOp::AddAssign(_) => Some("-="),
        BinOp::SubAssign(_) => Some("+="),
        _ => None,
    }
}

fn other_method(name: &str) -> Option<&'static str> {
    Some(match name {
        "min" => "max",
        "max" => "min",
        "saturating_sub" => "saturating_add",
        "saturating_add" => "saturating_sub",
        "any" => "all",
        "all" => "any",
        "push_back" => "push_front",
        "push_front" => "push_back",
        "pop_front" => "pop_back",
        "pop_back" => "pop_front",
        "first" => "last",
        "last" => "first",
        _ => return None,
    })
}

/// Returns results that a function could return at once.
fn results_of(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec![String::new()],
        ReturnType::Type(_, kind) => results(&kind.to_token_stream().to_string().replace(' ', "")),
    }
}

fn results(kind: &str) -> Vec<String> {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let inner = |name: &str| kind.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>');
    match kind {
        "()" => return owned(&["()"]),
        "bool" => return owned(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i64" => return owned(&["0", "1"]),
        "Duration" => return owned(&["::core::time::Duration::ZERO"]),
        "String" => return owned(&["String::new()"]),
        _ => {}
    }
    if inner("Option").is_some() {
        return owned(&["None"]);
    }
    if inner("Vec").is_some() {
        return owned(&["Vec::new()"]);
    }
    let Some(inner) = inner("Result") else { return Vec::new() };
    // The first of its types: a comma in a tuple or in brackets does not separate types.
    let mut depth = 0;
    let end = inner.find(|character| {
        depth += match character {
            '<' | '(' => 1,
            '>' | ')' => -1,
            _ => 0,
        };
        character == ',' && depth == 0
    });
    let ok = &inner[..end.unwrap_or(inner.len())];
    results(ok).into_iter().map(|text| format!("Ok({text})")).collect()
}
