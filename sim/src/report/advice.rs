//! Prints advised limits as tables.

use std::io::{self, Write};

use anstyle::Style;

use super::grid::Grid;
use super::words::{counted, duration, grouped, percent};
use super::{AdviceReport, table};
use crate::advise::{Denies, Share};

impl AdviceReport {
    /// Writes the tables, at most `width` columns wide.
    pub(crate) fn write(&self, width: u16, out: &mut dyn Write) -> io::Result<()> {
        let Denies { limit, clients, requests, .. } = self.advice.deploy;
        let bold = Style::new().bold();
        writeln!(out, "{bold}Deploy {limit}{bold:#}")?;
        writeln!(
            out,
            "The smallest rate and burst that deny fewer than {} of clients: {} of {}, and {} of {}.",
            self.share,
            grouped(clients),
            grouped(self.advice.clients),
            grouped(requests),
            counted(self.advice.requests, "request")
        )?;
        if self.advice.may_deny == 0 {
            let why = "the busiest client sets this limit, even an attacker. See the trade-off.";
            writeln!(out, "That is none: {why}")?;
        }
        writeln!(out, "\n{}\n{}", self.headline(), self.period())?;
        table::write_source(&self.source, out)?;
        for grid in self.grids() {
            writeln!(out, "{}", grid.to_text(width))?;
        }
        Ok(())
    }

    /// Returns the tables: advised limits, more or fewer denials, and rate against burst.
    pub(crate) fn grids(&self) -> Vec<Grid> {
        let grids = [self.advised(), self.trade_off(), self.buckets()];
        grids.into_iter().filter(|grid| !grid.rows.is_empty()).collect()
    }

    fn advised(&self) -> Grid {
        let header = ["window", "limit", "clients\ndenied", "%", "requests\ndenied", "%"];
        let title =
            format!("The smallest limits that deny fewer than {} of the clients", self.share);
        let mut grid = Grid::new(&title, &header, 2);
        let may_deny = counted(self.advice.may_deny, "client");
        grid.note = format!("That is at most {may_deny} of whom any request is denied.");
        let mut last = None;
        for family in &self.advice.families {
            let is_new = last.replace(family.window) != Some(family.window);
            let window = if is_new { duration(family.window) } else { String::new() };
            grid.rows.push(self.row(window, &family.advised));
        }
        grid
    }

    fn trade_off(&self) -> Grid {
        // Steps of clients denied that people think in; the given share is in the table above.
        const SHARES: [&str; 6] = ["10%", "5%", "1%", "0.5%", "0.1%", "0%"];
        let shares = SHARES.map(|share| share.parse::<Share>().expect("it is a percentage"));
        let mut header = vec!["window", "limit"];
        header.extend(["<10%", "<5%", "<1%", "<0.5%", "<0.1%", "nobody"]);
        let mut grid = Grid::new("The trade-off", &header, 2);
        grid.note = "The smallest amount per window that denies so many of the clients.".into();
        let mut last = None;
        for family in &self.advice.families {
            let is_new = last.replace(family.window) != Some(family.window);
            let window = if is_new { duration(family.window) } else { String::new() };
            let mut row = vec![window, family.kind.name().to_owned()];
            row.extend(shares.map(|share| grouped(family.smallest(share))));
            grid.rows.push(row);
        }
        grid
    }

    fn buckets(&self) -> Grid {
        let header = ["token bucket", "clients\ndenied", "%", "requests\ndenied", "%"];
        let mut grid = Grid::new("Rate against burst", &header, 1);
        grid.note = "For each rate the smallest burst that denies as few.".into();
        let row = |bucket: &Denies| self.row(String::new(), bucket).split_off(1);
        grid.rows = self.advice.buckets.iter().map(row).collect();
        grid
    }

    fn row(&self, window: String, denies: &Denies) -> Vec<String> {
        let Denies { limit, clients, requests, .. } = denies;
        vec![
            window,
            limit.to_string(),
            grouped(*clients),
            percent(*clients, self.advice.clients),
            grouped(*requests),
            percent(*requests, self.advice.requests),
        ]
    }
}
