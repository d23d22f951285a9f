//! The report as one page.

use super::{LIMITS, SAMPLE, file, run, text};

/// The page that a command writes.
fn page(args: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let output = run(&[args, &["--html", path.to_str().unwrap()]].concat());
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let page = std::fs::read_to_string(&path).unwrap();
    // Only the page's own name differs from run to run.
    page.replace(path.to_str().unwrap(), "report.html")
}

#[test]
fn a_page_has_it_all_and_fetches_nothing() {
    let traffic = ["poisson 20/s", "--keys", "9", "--seed", "7", "--duration", "1min"];
    let limits = ["sliding-window 5/s", "token-bucket 5/s burst 9"];
    let explored = page(
        &[
            &["explore", "--traffic"][..],
            &traffic,
            &["--limit", limits[0], "--limit", limits[1], "--wait", "1s"],
        ]
        .concat(),
    );
    let compared = page(&[&["compare"][..], &traffic[..1], &limits, &traffic[1..]].concat());
    let replayed = page(&[&["replay", SAMPLE][..], &LIMITS].concat());
    let advised = page(&["advise", SAMPLE]);
    for (page, expected) in [
        (&explored, ["poisson 20/s", "<dd>7</dd>", "Waiting for at most 1s", "under E3"]),
        (&compared, ["'poisson 20/s'", "only the", "Where they differ most", "--seed 7"]),
        (
            &replayed,
            ["203.0.113.66", "Against the envelope", "LINDEX", "leaky-bucket 2/s queue 20"],
        ),
        (
            &advised,
            ["35 clients", "Rate against burst", "lockage-sim advise", "clients denied, by"],
        ),
    ] {
        for expected in expected {
            assert!(page.contains(expected), "{expected} in\n{page}");
        }
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
        assert_eq!(page.matches("<svg").count(), 1);
        for fetched in ["<script", "<link", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(fetched), "{fetched} in\n{page}");
        }
        // The one address is the name of SVG.
        let addresses = page.matches("http://").count() + page.matches("https://").count();
        assert_eq!(addresses, page.matches("http://www.w3.org/2000/svg").count());
    }
}

#[test]
fn log_contents_are_escaped_on_the_page() {
    let (_folder, path) = file(
        "<evil> & co.csv",
        b"5,<script>alert(1)</script>\n6,<script>alert(1)</script>\nno <b>request</b>\n",
    );
    for args in [
        vec!["replay", &path, "--limit", "sliding-log 1/s"],
        vec!["compare", &path, "sliding-log 1/s", "fixed-window 2/s"],
        vec!["advise", &path],
    ] {
        let page = page(&args);
        for markup in ["<script", "<evil", "<b>", "& co"] {
            assert!(!page.contains(markup), "{markup} in\n{page}");
        }
        assert!(
            page.contains("&lt;evil&gt; &amp; co.csv") && page.contains("1 line left out"),
            "{page}"
        );
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let args = [
        "explore",
        "--traffic",
        "pareto 5/s tail 1.5",
        "--keys",
        "5",
        "--limit",
        "sliding-window 3/s",
    ];
    assert_eq!(page(&args), page(&args));
    assert_eq!(page(&["advise", SAMPLE]), page(&["advise", SAMPLE]));
}

#[test]
fn a_page_that_cannot_be_written_is_a_failure() {
    for args in [&["replay", SAMPLE, "--limit", "sliding-log 1/s"][..], &["advise", SAMPLE]] {
        let output = run(&[args, &["--html", "no/such/folder/a.html"]].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("cannot write the page to no/such/folder/a.html"));
    }
}
