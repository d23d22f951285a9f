//! The errors of peers: the violations of their scripts in the museum's trial, and the museum's entries of their
//! projects.

use lockage_world::museum::{Event, entries};

use super::list::Peer;

/// Returns the errors of a peer, in short, and the shortest traces that show them.
pub(super) fn of(peer: &Peer, scripts: &[String]) -> (String, Vec<String>) {
    let mut notes = Vec::new();
    let cell = match peer.tried(scripts) {
        Some(Ok(found)) => {
            for finding in &found {
                let trace = finding.trace.iter().map(step).collect::<Vec<_>>().join("; ");
                notes
                    .push(format!("{}, {}: {trace}. {}", peer.name, finding.property, finding.why));
            }
            let broken: Vec<&str> = found.iter().map(|found| found.property.name()).collect();
            if broken.is_empty() { "nothing found".to_owned() } else { broken.join(", ") }
        }
        Some(Err(error)) => {
            let error = error.split(" stack traceback").next().unwrap_or_default();
            notes.push(format!("{}: the simulated store cannot run it: {error}", peer.name));
            "not tried".to_owned()
        }
        None => "not tried".to_owned(),
    };
    (format!("{cell}; {}", reported(peer.project, peer.trial.is_none())), notes)
}

fn step(event: &Event) -> String {
    if event.is_wait() { event.step.to_string() } else { format!("{}: {}", event.step, event.seen) }
}

/// Returns the museum's entries of a project: seen in the project of this name, or in that of its first word.
pub(super) fn reported(project: &str, is_lock: bool) -> String {
    let is_it = |seen: &str| {
        let seen = seen.split('#').next();
        seen == Some(project) || seen == project.split(' ').next()
    };
    let entries = entries().into_iter().filter(|entry| {
        let is_of_lock = entry.property.name().starts_with('L');
        is_of_lock == is_lock && entry.seen_in.split(", ").any(is_it)
    });
    let names: Vec<String> =
        entries.map(|entry| format!("{} `{}`", entry.property, entry.name)).collect();
    if names.is_empty() {
        "museum: nothing".to_owned()
    } else {
        format!("museum: {}", names.join(", "))
    }
}
