//! The file of the book's page, and those that tests share.

use lockage_rules::{Format, Rules};

#[test]
fn the_file_of_the_book_has_no_mistake() {
    let page = include_str!("../../../docs/rules.md");
    let file = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(file, include_str!("../../files/rules.toml"));
    let rules = Rules::parse(file, Format::Toml).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(rules.names().collect::<Vec<_>>(), ["banned", "exports", "requests", "chat"]);
}
