//! Proposals in the place of texts that are no time zones: a zone of the same meaning, or none.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::zone::{Zone, edits};

/// Abbreviations that mean one zone, and are no names of it. Others mean several: `CST` does in three countries.
const ABBREVIATIONS: [(&str, &str); 7] = [
    ("Z", "UTC"),
    ("CEST", "CET"),
    ("EDT", "America/New_York"),
    ("MDT", "America/Denver"),
    ("PDT", "America/Los_Angeles"),
    ("PST", "America/Los_Angeles"),
    ("JST", "Asia/Tokyo"),
];

/// Returns the zone that this text means, with a word on its sign if that is the reverse.
pub(super) fn proposal(text: &str) -> Option<String> {
    let trimmed = |word: &str| word.trim_end_matches([',', ';', '.', ')', '"', '\'']).to_owned();
    let words: Vec<String> = text.split_whitespace().take(3).map(trimmed).collect();
    let first = words.first()?;
    if let Some(hours) = offset(first) {
        return whole_hours(hours);
    }
    let is_abbreviation = |(short, _): &&(&str, &str)| short.eq_ignore_ascii_case(first);
    match ABBREVIATIONS.iter().find(is_abbreviation) {
        Some((_, name)) => Some((*name).to_owned()),
        // `New York` has two words.
        None => (1..=words.len()).rev().find_map(|count| similar(&words[..count].join("_"))),
    }
}

/// Returns the minutes east of UTC that `+2`, `UTC-05:30` and the like mean.
fn offset(text: &str) -> Option<i32> {
    let start = text.find(['+', '-'])?;
    let (base, offset) = text.split_at(start);
    if !["", "UTC", "GMT", "Z"].iter().any(|known| known.eq_ignore_ascii_case(base)) {
        return None;
    }
    let (sign, digits) = offset.split_at(1);
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() > 2 => digits.split_at_checked(digits.len() - 2)?,
        None => (digits, "0"),
    };
    let number = |digits: &str| digits.parse::<u8>().ok().map(i32::from);
    let minutes = 60 * number(hours)? + number(minutes)?;
    Some(if sign == "-" { -minutes } else { minutes })
}

/// Returns the zone of a whole number of hours east of UTC: there are none for other offsets.
fn whole_hours(minutes: i32) -> Option<String> {
    let hours = minutes / 60;
    if minutes % 60 != 0 || !(-12..=14).contains(&hours) {
        return None;
    }
    Some(match hours {
        0 => "UTC".to_owned(),
        _ => format!(
            "Etc/GMT{:+} ({} h {} of UTC: the sign of these names is the reverse)",
            -hours,
            hours.abs(),
            if hours > 0 { "east" } else { "west" },
        ),
    })
}

/// Returns the only zone whose name or city is this text, but for a mistyped letter, or two in a long one. A short word
/// is taken literally: one letter off `PST` is the `EST` of another coast.
fn similar(text: &str) -> Option<String> {
    let city = |name: &'static str| name.rsplit('/').next().unwrap_or(name);
    let written = text.rsplit('/').next().unwrap_or(text);
    let most = match text.len() {
        _ if text.bytes().any(|byte| byte.is_ascii_digit()) => 0,
        0..5 => 0,
        5..8 => 1,
        _ => 2,
    };
    let distance = |name: &'static str| match city(name).eq_ignore_ascii_case(written) {
        true => 0,
        false => edits(text, name).min(edits(text, city(name))),
    };
    let all = || Zone::all().map(Zone::name);
    let nearest = all().min_by_key(|name| distance(name))?;
    let least = distance(nearest);
    let is_other = |name: &&'static str| distance(name) == least && city(name) != city(nearest);
    (least <= most && !all().any(|name| is_other(&name))).then(|| nearest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_the_sign_that_people_mean() {
        for (text, name) in [
            ("GMT+2", "Etc/GMT-2 (2 h east"),
            ("gmt+2", "Etc/GMT-2 (2 h east"),
            ("UTC+2", "Etc/GMT-2 (2 h east"),
            ("GMT-5", "Etc/GMT+5 (5 h west"),
            ("UTC-05:00", "Etc/GMT+5 (5 h west"),
            ("+02:00", "Etc/GMT-2 (2 h east"),
            ("+0200", "Etc/GMT-2 (2 h east"),
            ("-3", "Etc/GMT+3 (3 h west"),
            ("UTC+14", "Etc/GMT-14 (14 h east"),
        ] {
            let proposal = proposal(text).unwrap();
            assert!(proposal.starts_with(name), "{text}: {proposal}");
            assert!(Zone::named(proposal.split(' ').next().unwrap()).is_some(), "{proposal}");
        }
        for text in ["Z", "z", "UTC+0", "+00:00", "GMT-00:00", "UTC+0000"] {
            assert_eq!(proposal(text).as_deref(), Some("UTC"), "{text}");
        }
    }

    #[test]
    fn cities_are_found_with_a_mistyped_letter() {
        for (text, name) in [
            ("Berlin", "Europe/Berlin"),
            ("berlin,", "Europe/Berlin"),
            ("Europe/Berln", "Europe/Berlin"),
            ("America/Berlin", "Europe/Berlin"),
            ("Oslo", "Europe/Oslo"),
            ("New York", "America/New_York"),
            ("New York, fixed-window 1/s", "America/New_York"),
            ("Paris fixed-window", "Europe/Paris"),
            ("New_Yrok", "America/New_York"),
            ("america/los_angelos", "America/Los_Angeles"),
            ("PST", "America/Los_Angeles"),
            ("cest", "CET"),
        ] {
            assert_eq!(proposal(text).as_deref(), Some(name), "{text}");
        }
    }

    #[test]
    fn texts_of_no_zone_or_several_have_no_proposal() {
        for text in [
            "",
            " ",
            "+",
            "-",
            "CST",
            "IST",
            "BST",
            "ABC",
            "Q",
            "GMT+15",
            "UTC-13",
            "UTC+5:30",
            "+05:45",
            "GMT+2x",
            "GMT+999",
            "Etc/GMT+15",
            "Etc/GMT+2:00",
            "local",
            "Mars/Olympus",
            "EST6EDT",
            "Europe/",
            "Ü",
            "+é00",
        ] {
            assert_eq!(proposal(text), None, "{text}");
        }
    }

    /// No name is one letter off an own name.
    #[test]
    fn each_zone_is_its_own_proposal() {
        for name in Zone::all().map(Zone::name).filter(|name| name.contains('/')) {
            let city = |name: &str| name.rsplit('/').next().unwrap().to_owned();
            let is_offset = name.starts_with("Etc/");
            assert!(
                is_offset || similar(name).is_some_and(|own| city(&own) == city(name)),
                "{name}"
            );
        }
    }
}
