//! Prints a limit as a string that parses back to it.

use core::fmt;

use super::Limit;
use crate::limiter::{Scope, StoredLimit};
use crate::span::Span;

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = self.part_names();
        for (index, single) in self.singles().iter().enumerate() {
            f.write_str(if index > 0 { " + " } else { "" })?;
            if let Some(name) = names.next() {
                write!(f, "{name}: ")?;
            }
            write!(f, "{} ", single.row().word)?;
            single.print(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for StoredLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.limit())?;
        if self.scope() == Scope::PerClient {
            f.write_str(" per client")?;
        }
        match self.keep() {
            StoredLimit::LONGEST_KEPT => Ok(()),
            keep => write!(f, " kept {}", Span(keep)),
        }
    }
}
