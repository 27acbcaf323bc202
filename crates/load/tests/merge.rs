//! Merging several runs gives what one run would have recorded, also when the parts were written to files.

mod sample;

use load::report::{Format, Style, read};
use load::run::{Fault, Measured, Pace, Reuse, Run, Series, Times, WRONG_KEPT};
use sample::Dice;

/// The same requests, divided among this many generators.
fn split(generators: usize) -> Vec<Measured> {
    let mut dice = Dice(7);
    let mut parts = vec![Measured::default(); generators];
    for request in 0..30_000u64 {
        let part = &mut parts[dice.roll() as usize % generators];
        let (since_begin, total) = (request * 300, dice.micros());
        match dice.roll() % 50 {
            0 => sample::wrong(part, since_begin, total, Fault::Status, &format!("/{}", total % 9)),
            1 => sample::wrong(part, since_begin, total * 9, Fault::Timeout, "/"),
            _ => sample::right(part, since_begin, total),
        }
        if request % 100 == 0 {
            part.connect.record(total / 20);
            part.connections += 1;
        }
    }
    parts
}

fn merged(parts: &[Measured]) -> Measured {
    let mut all = Measured::default();
    parts.iter().for_each(|part| all.merge(part));
    all
}

#[test]
fn merged_histograms_equal_one_run() {
    let one = merged(&split(1));
    for generators in [2, 3, 8] {
        let many = merged(&split(generators));
        for per_cent in [0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0] {
            assert_eq!(many.total.percentile(per_cent), one.total.percentile(per_cent), "{per_cent}");
        }
        assert_eq!(many.total.mean(), one.total.mean());
        assert_eq!(many, one);
    }
}

#[test]
fn the_order_of_merging_does_not_matter() {
    let mut parts = split(5);
    let forwards = merged(&parts);
    parts.reverse();
    assert_eq!(merged(&parts), forwards);
}

#[test]
fn merging_with_nothing_changes_nothing() {
    let one = merged(&split(1));
    assert_eq!(merged(&[Measured::default(), one.clone(), Measured::default()]), one);
}

#[test]
fn runs_read_from_files_merge_alike() {
    let runs: Vec<Run> = split(3)
        .into_iter()
        .map(|measured| Run {
            measured,
            settings: sample::settings(),
            server: sample::server(),
            generators: 1,
        })
        .collect();
    let mut direct = runs[0].clone();
    let mut through_files = read::run(Format::Json.render(&runs[0], Style::Plain).as_bytes()).unwrap();
    for run in &runs[1..] {
        direct.merge(run);
        through_files.merge(&read::run(Format::Json.render(run, Style::Plain).as_bytes()).unwrap());
    }
    assert_eq!(through_files, direct);
    assert_eq!(direct.generators, 3);
    assert_eq!(direct.settings.concurrency, 3 * 215);
    assert_eq!(direct.measured.done, runs.iter().map(|run| run.measured.done).sum::<u64>());
}

#[test]
fn adds_up_the_wanted_rates() {
    for (ours, theirs, expected) in [
        (Pace::Closed, Pace::Closed, Pace::Closed),
        (Pace::Even(100.0), Pace::Even(50.0), Pace::Even(150.0)),
        (Pace::Poisson(100.0), Pace::Poisson(50.0), Pace::Poisson(150.0)),
        (Pace::Even(100.0), Pace::Poisson(50.0), Pace::Poisson(150.0)),
    ] {
        let mut run = Run::default();
        run.settings.pace = ours;
        let mut other = Run::default();
        other.settings.pace = theirs;
        run.merge(&other);
        assert_eq!(run.settings.pace, expected);
    }
}

#[test]
fn reads_a_run_as_it_was_written() {
    let mut run = sample::run();
    run.settings.pace = Pace::Poisson(1234.5);
    run.settings.reuse = Reuse::PerRequest;
    run.settings.stop_requests = Some(60_000);
    run.settings.url = "http://h/\"\\\u{7}ünïcode".to_owned();
    run.server.tls = Some(load::run::Tls { version: "TLSv1.3".to_owned(), cipher: "X".to_owned() });
    run.measured.handshake.record(123);
    for run in [run, Run { generators: 1, ..Run::default() }] {
        let text = Format::Json.render(&run, Style::Plain);
        let again = read::run(text.as_bytes()).unwrap();
        assert_eq!(again, run);
        assert_eq!(Format::Json.render(&again, Style::Plain), text);
    }
}

#[test]
fn rejects_what_is_not_a_run_and_names_the_value() {
    let text = Format::Json.render(&sample::run(), Style::Plain);
    let histogram = "\"histogram\": \"HIST";
    for (from, to, expected) in [
        ("{", "[", "line 2, column 11: not JSON"),
        (
            "\"format\": \"taipan-bench\"",
            "\"format\": \"oha\"",
            "not a run: use a file that --format json wrote",
        ),
        ("\"version\": 1,", "\"version\": 2,", "a run of version 2; this program reads version 1"),
        ("\"done\": 59931,\n", "", "measured.done: a value expected"),
        ("\"done\": 59931,\n", "\"done\": -1,\n", "measured.done: a whole number of bounded size expected"),
        (
            "\"done\": 59931,\n",
            "\"done\": 1e300,\n",
            "measured.done: a whole number of bounded size expected",
        ),
        (
            "\"done\": 59931,\n",
            "\"done\": 9007199254740993,\n",
            "measured.done: a whole number of bounded size expected",
        ),
        (
            "\"pace\": \"closed\"",
            "\"pace\": \"fast\"",
            "settings.pace: \"closed\", \"even\" or \"poisson\" expected",
        ),
        ("\"port\": 8080", "\"port\": 80800", "server.port: a port expected"),
        ("\"min\": 30,", "\"min\": 400,", "times.connect.min: no more than max expected"),
        (
            "\"count\": 230,",
            "\"count\": 231,",
            "times.connect.count: as many as the histogram holds expected",
        ),
        (
            histogram,
            "\"histogram\": \"hist",
            "times.connect.histogram: HdrHistogram V2 in base64, of microseconds expected",
        ),
        ("\"200\": 59931", "\"20\": 59931", "measured.statuses.20: a status as a name expected"),
        (
            "\"width_seconds\": 1",
            "\"width_seconds\": 0",
            "series: a bounded number of points, and their width expected",
        ),
        ("\"steps\":[[", "\"steps\":[[9999,1],[", "series.points.0.steps.0.0: the number of a step expected"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = read::run(text.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    for text in ["", "null", "[]", "{}", "\u{0}", "[[[[[[[["] {
        assert!(read::run(text.as_bytes()).is_err(), "{text:?}");
    }
}

/// A file may claim any size; reading must not cost more than the file itself.
#[test]
fn rejects_a_histogram_that_claims_too_much() {
    let text = Format::Json.render(&Run { generators: 1, ..Run::default() }, Style::Plain);
    let empty = "HISTFAAAAB94nJNpmSzMwMDAyAABzFAazL82eQmD/QeoCABVgwSI";
    assert!(text.contains(empty));
    for claim in ["", "AAAA", "HISTFAAAAB94", "HISTFH////94nJNpmSzMwMDAyAABzFAazL82eQmD/QeoCABVgwSI"] {
        assert!(read::run(text.replacen(empty, claim, 1).as_bytes()).is_err(), "{claim}");
    }
}

/// A damaged file is an error, or a run that every format can render.
#[test]
fn a_damaged_file_never_panics() {
    let mut measured = Measured { micros: 3_000_000, ..Measured::default() };
    for request in 0..30 {
        sample::right(&mut measured, request * 100_000, 1_000 << (request % 12));
    }
    sample::wrong(&mut measured, 2_900_000, 70, Fault::Status, "/");
    let run = Run { measured, settings: sample::settings(), server: sample::server(), generators: 1 };
    let text = Format::Json.render(&run, Style::Plain).into_bytes();
    let mut dice = Dice(99);
    // Of all damages, a fifth is in a number and leaves a run.
    let (mut damages, mut readable) = (0, 0);
    while readable < 30 {
        damages += 1;
        assert!(damages < 1000, "{readable} readable of {damages}");
        let mut damaged = text.clone();
        let place = dice.roll() as usize % damaged.len();
        damaged[place] = b"0123456789-\"{}[],.eAz"[dice.roll() as usize % 20];
        if let Ok(run) = read::run(&damaged) {
            readable += 1;
            let mut twice = run.clone();
            twice.merge(&run);
            for format in Format::ALL {
                format.render(&twice, Style::Plain);
            }
        }
    }
}

#[test]
fn times_are_exact_at_the_ends_and_to_a_thousandth_between() {
    let mut times = Times::default();
    assert_eq!((times.shortest(), times.longest(), times.percentile(50.0), times.mean()), (0, 0, 0, 0.0));
    for micros in [123_457, 0, 7_200_000_000] {
        times.record(micros);
    }
    assert_eq!((times.count(), times.shortest(), times.longest()), (3, 0, 7_200_000_000));
    assert_eq!(times.percentile(100.0), 7_200_000_000);
    assert!(times.percentile(50.0).abs_diff(123_457) <= 124);
}

#[test]
fn long_runs_keep_a_bounded_series() {
    let mut series = Series::default();
    let hours = 10;
    for second in 0..hours * 3600u64 {
        series.done(second * 1_000_000, 1_000, 10);
    }
    series.failed(hours * 3600 * 1_000_000, 9_000, 0);
    assert_eq!(series.width(), 16);
    assert!(series.points().len() <= 3600);
    assert_eq!(series.points().iter().map(|point| point.done).sum::<u64>(), hours * 3600);
    assert_eq!(series.points()[0].done, 16);
    // An impossible time must not cost memory either.
    series.done(u64::MAX, 1, 0);
    assert!(series.points().len() <= 3600);

    let mut fine = Series::default();
    fine.done(0, 500, 1);
    fine.merge(&series);
    assert_eq!(fine.width(), series.width());
    assert_eq!(fine.points().iter().map(|point| point.done).sum::<u64>(), hours * 3600 + 2);
}

#[test]
fn keeps_the_names_of_wrong_urls_up_to_a_bound() {
    let mut measured = Measured::default();
    for url in 0..WRONG_KEPT as u64 + 10 {
        for _ in 0..3 {
            measured.fail(Fault::WrongBody, &format!("/{url}"));
        }
    }
    measured.fail(Fault::Refused, "/never-answered");
    assert_eq!(measured.wrong.len(), WRONG_KEPT);
    assert_eq!(measured.wrong_unnamed, 30);
    assert_eq!(measured.failed(), 3 * (WRONG_KEPT as u64 + 10) + 1);
    assert_eq!(measured.wrong["/0"].count, 3);
    assert!(!measured.wrong.contains_key("/never-answered"));
}
