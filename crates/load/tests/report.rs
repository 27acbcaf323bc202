//! The reports for readers: the page, the HTML report, the CSV series.

mod sample;

use load::report::{Format, Style};
use load::run::{Fault, Measured, Pace, Run};

fn page(run: &Run) -> String {
    Format::Page.render(run, Style::Plain)
}

const PAGE: &str = "\
http://www.example:8080/page.html
215 connections, kept alive, 2 threads, closed loop, 30.0 s
Boa/0.93.9, http/1.1, 2,448 bytes, status checked

  Availability  99.89 %         59,931 of 60,000 requests right, 69 failed
  Longest       5.60 s          of any request, failed ones too
  Rate          1,998 /s        right ones only, on 230 connections
  Transfer      5.29 MB/s       159 MB received (147 MB of bodies), 3.60 MB sent
  Client        15 µs           processor time per request; busiest thread 2 %

  Times             min     mean   median     90 %     99 %   99.9 %      max
  Connect         30 µs   176 µs   171 µs   309 µs   326 µs   328 µs   328 µs
  First byte     240 µs  13.7 ms   764 µs  3.25 ms   721 ms   724 ms   788 ms
  Last byte      270 µs  15.5 ms   860 µs  3.65 ms   811 ms   815 ms   887 ms
  Total          300 µs  17.2 ms   955 µs  4.06 ms   901 ms   905 ms   985 ms
  Total: from the start of a request, with connecting, to its last byte.

  Rate by time  ██████████████████████████████  1,995 /s to 2,000 /s
  99 % by time  ▁▁▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  17.4 ms to 918 ms

  Statuses      200 × 59,931, 500 × 53

  Failed               69
                        8  connection refused
                        1  timed out
                       53  unexpected status
                        7  body with other bytes

  Wrong responses
                       53  /page.html  unexpected status
                        7  /other.html  body with other bytes
";

#[test]
fn the_page_fits_one_screen() {
    assert_eq!(page(&sample::run()), PAGE);
    assert!(PAGE.lines().count() <= 40);
    assert!(PAGE.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn colour_does_not_change_the_text() {
    let mut plain = String::new();
    let coloured = Format::Page.render(&sample::run(), Style::Colour);
    let mut letters = coloured.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            letters.find(|&letter| letter == 'm');
        } else {
            plain.push(letter);
        }
    }
    assert_ne!(coloured, plain);
    assert_eq!(plain, PAGE);
}

#[test]
fn says_when_the_client_was_the_limit() {
    let mut run = sample::run();
    run.measured.busiest_micros = 29_700_000;
    run.measured.faults.add(Fault::NoPorts, 1_234);
    let expected = "
  ! The client was the limit: 1,234 requests found no local port left. Keep
    connections alive, add source addresses, or widen
    net.ipv4.ip_local_port_range. These failures are not the server's.

  ! The client was the limit: its busiest thread used 99 % of a core. The server
    may be faster than this. Add threads, or generators on other machines.
";
    let page = page(&run);
    assert!(page.ends_with(expected), "{page}");
    for format in
        [Format::Ab, Format::HttpLoad, Format::Siege, Format::ZeusBench, Format::Wrk, Format::H2load]
    {
        let text = format.render(&run, Style::Plain);
        assert!(text.contains("1234 of the failures are the client's own"), "{text}");
    }
}

/// Every format prints availability and the longest time with the rate.
#[test]
fn no_format_prints_a_rate_alone() {
    let mut run = sample::run();
    run.measured.longest = 7_654_000;
    let availability = [(Format::Html, "99.89 %"), (Format::Page, "99.89 %"), (Format::Json, "99.885")];
    for format in Format::ALL {
        let text = format.render(&run, Style::Plain);
        let longest = ["7.65", "7654.000", "7654000"].iter().any(|figure| text.contains(figure));
        // CSV has no figures for the whole run, but for each point.
        assert!(longest || format == Format::Csv, "{}:\n{text}", format.name());
        let expected = availability.iter().find(|(known, _)| *known == format).map(|(_, figure)| *figure);
        let expected = expected.unwrap_or(match format {
            Format::Siege | Format::SiegeJson => "99.88",
            Format::Csv => "availability_percent",
            _ => "availability 99.89 %",
        });
        assert!(text.contains(expected), "{}:\n{text}", format.name());
    }
}

#[test]
fn renders_an_empty_run_without_dividing_by_zero() {
    for format in Format::ALL {
        let text = format.render(&Run::default(), Style::Plain);
        for nonsense in ["NaN", "inf", "-0"] {
            assert!(!text.contains(nonsense), "{}: {nonsense}\n{text}", format.name());
        }
        assert!(text.ends_with('\n'), "{}", format.name());
    }
}

#[test]
fn finds_formats_by_name() {
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.name()), Some(format));
    }
    for name in ["", "AB", "ab ", "httperf"] {
        assert_eq!(Format::from_name(name), None);
    }
}

#[test]
fn removes_control_characters_of_server_text() {
    let mut run = sample::run();
    run.server.name = "evil\u{1b}]0;title\u{7}".to_owned();
    run.settings.url = "http://h/\u{1b}[2J".to_owned();
    run.measured.fail(Fault::Malformed, "/\u{1b}[31m");
    let page = page(&run);
    assert!(!page.contains(['\u{1b}', '\u{7}']), "{page}");
}

#[test]
fn the_open_loop_counts_times_from_the_due_moment() {
    let mut run = sample::run();
    run.settings.pace = Pace::Poisson(2000.0);
    let page = page(&run);
    assert!(page.contains("open loop, 2,000 per second at random"), "{page}");
    assert!(page.contains("Total: from the moment a request was due to its last byte."), "{page}");
}

#[test]
fn the_html_report_fetches_nothing() {
    let mut run = sample::run();
    run.settings.url = "http://h/<script>alert(1)</script>\"'&".to_owned();
    run.server.name = "<img src=x>".to_owned();
    run.measured.fail(Fault::WrongBody, "/<b>");
    let html = Format::Html.render(&run, Style::Plain);
    for fetching in ["<script", "<link", "<img", " src=\"", "url(", "@import", "href=", "<b>/", "/<b>"] {
        assert!(!html.contains(fetching), "{fetching}");
    }
    assert!(html.contains("http://h/&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
    assert_eq!(html.matches("<svg ").count(), 4);
    assert_eq!(html.matches("role=\"img\" aria-label=\"").count(), 4);
    assert!(html.contains("prefers-color-scheme: dark"));
    for (open, close) in [("<figure", "</figure>"), ("<table", "</table>"), ("<section", "</section>")] {
        assert_eq!(html.matches(open).count(), html.matches(close).count(), "{open}");
    }
}

#[test]
fn the_html_report_stays_small_for_a_long_run() {
    let mut measured = Measured { micros: 3_600_000_000, ..Measured::default() };
    for second in 0..3600 {
        sample::right(&mut measured, second * 1_000_000, 1_000 + second * 100);
    }
    let run = Run { measured, settings: sample::settings(), server: sample::server(), generators: 1 };
    assert!(Format::Html.render(&run, Style::Plain).len() < 120_000);
}

#[test]
fn the_series_has_a_line_for_every_second() {
    let mut measured = Measured { micros: 2_500_000, ..Measured::default() };
    sample::right(&mut measured, 100_000, 1_000);
    sample::right(&mut measured, 900_000, 15_000);
    sample::wrong(&mut measured, 950_000, 20_000, Fault::Timeout, "/");
    sample::right(&mut measured, 2_400_000, 10);
    let run = Run { measured, settings: sample::settings(), server: sample::server(), generators: 1 };
    let expected = "\
second,requests_per_second,done,failed,availability_percent,received_bytes_per_second,p50_micros,p99_micros,longest_micros
0,2.00,2,1,66.6667,5296,1023,15359,20000
1,0.00,0,0,,0,,,0
2,2.00,1,0,100.0000,5296,10,10,10
";
    assert_eq!(Format::Csv.render(&run, Style::Plain), expected);
}
