//! What `taipan certificates` shows beside a certificate itself, and what the next process needs to know: one line for
//! each fact, a word and its value.

use super::dns::Record;
use super::schedule::Time;

/// Bytes of an error that are kept.
const MAX_ERROR: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// When the next order begins.
    pub due: Time,
    /// The directory of the authority that has issued the certificate.
    pub authority: Option<String>,
    /// The last attempt, if it has failed.
    pub failure: Option<(Time, String)>,
    pub account: Option<KnownAccount>,
    /// Those that are set for an order, and not yet removed.
    pub records: Vec<Record>,
}

/// What a record for `dns-persist-01` has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownAccount {
    /// The URL of the account at the authority.
    pub url: String,
    /// The name of the authority in DNS records.
    pub issuer: Option<String>,
}

impl Report {
    pub fn write(&self) -> String {
        let mut text = format!("due {}\n", self.due);
        let mut line = |word: &str, value: &str| {
            let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            text.extend([word, " ", &value, "\n"]);
        };
        self.authority.iter().for_each(|authority| line("authority", authority));
        if let Some(KnownAccount { url, issuer }) = &self.account {
            line("account", url);
            issuer.iter().for_each(|issuer| line("issuer", issuer));
        }
        if let Some((at, why)) = &self.failure {
            line("failed", &at.to_string());
            line("error", &why[..why.floor_char_boundary(MAX_ERROR)]);
        }
        for Record { name, value } in &self.records {
            line("record", &format!("{name} {value}"));
        }
        text
    }

    /// Unknown lines are skipped: another version may have written them.
    pub fn parse(text: &str) -> Report {
        let value = |word: &str| {
            text.lines()
                .find_map(|line| line.split_once(' ').filter(|(first, _)| *first == word))
                .map(|(_, v)| v)
        };
        let owned = |word| value(word).map(str::to_owned);
        let time = |word| value(word).and_then(|value| value.parse().ok());
        let record = |line: &str| {
            let (name, value) = line.strip_prefix("record ")?.split_once(' ')?;
            Some(Record { name: name.to_owned(), value: value.to_owned() })
        };
        Report {
            due: time("due").unwrap_or(0),
            authority: owned("authority"),
            failure: time("failed").zip(owned("error")),
            account: owned("account").map(|url| KnownAccount { url, issuer: owned("issuer") }),
            records: text.lines().filter_map(record).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let text = |text: &str| Some(text.to_owned());
        let full = Report {
            due: 77,
            authority: text("https://a.example/dir"),
            failure: Some((5, "two words, ä".to_owned())),
            account: Some(KnownAccount {
                url: "https://a.example/acct/1".to_owned(),
                issuer: text("a.example"),
            }),
            records: ["one", "two"].map(|value| Record::of_challenge("a.example", value.to_owned())).into(),
        };
        for report in [full.clone(), Report::default(), Report { failure: None, ..full.clone() }] {
            assert_eq!(Report::parse(&report.write()), report);
        }
        let lines = Report { failure: Some((5, "a\nerror b".to_owned())), ..full.clone() };
        assert_eq!(Report::parse(&lines.write()).failure, Some((5, "a error b".to_owned())));
        let long = Report { failure: Some((5, "ä".repeat(2000))), ..full };
        assert!(long.write().len() < 2 * MAX_ERROR);
        for rubbish in ["", "due", "due x\nfailed 1\n", "\u{fffd} \n\n", "record\nrecord x\n"] {
            assert_eq!(Report::parse(rubbish), Report::default(), "{rubbish}");
        }
    }
}
