//! What a `User-Agent` says: a browser and its system, or another program. By the first word of a table that it
//! contains.

/// The names under which a report counts a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agent {
    /// A bot is named by its own word: see `bot_name`.
    pub browser: &'static str,
    pub system: &'static str,
    pub is_bot: bool,
}

/// In lower case. Programs that crawl, monitor or load.
const BOTS: &[&str] = &[
    "bot",
    "crawl",
    "spider",
    "slurp",
    "curl/",
    "wget/",
    "python",
    "go-http-client",
    "java/",
    "libwww",
    "scrapy",
    "facebookexternalhit",
    "monitor",
    "preview",
    "feed",
    "axios",
    "okhttp",
    "headless",
    "httpclient",
    "scan",
    "zgrab",
    "nmap",
    "lighthouse",
    "archive",
    "fetch",
    "checker",
    "validator",
    "taipan",
    "gptbot",
    "claude",
    "perplexity",
];

/// More special names come first: every browser also claims to be an older one.
const BROWSERS: &[(&str, &str)] = &[
    ("edg/", "Edge"),
    ("edga/", "Edge"),
    ("opr/", "Opera"),
    ("opera", "Opera"),
    ("samsungbrowser", "Samsung Internet"),
    ("vivaldi", "Vivaldi"),
    ("yabrowser", "Yandex"),
    ("ucbrowser", "UC Browser"),
    ("firefox/", "Firefox"),
    ("fxios/", "Firefox"),
    ("crios/", "Chrome"),
    ("chromium/", "Chromium"),
    ("chrome/", "Chrome"),
    ("safari/", "Safari"),
    ("trident/", "Internet Explorer"),
    ("msie ", "Internet Explorer"),
    ("lynx", "Lynx"),
    ("links", "Links"),
    ("w3m", "w3m"),
    ("dillo", "Dillo"),
    ("netsurf", "NetSurf"),
    ("seamonkey", "SeaMonkey"),
];

const SYSTEMS: &[(&str, &str)] = &[
    ("android", "Android"),
    ("iphone", "iOS"),
    ("ipad", "iOS"),
    ("windows", "Windows"),
    ("mac os x", "macOS"),
    ("macintosh", "macOS"),
    ("cros ", "ChromeOS"),
    ("openbsd", "OpenBSD"),
    ("freebsd", "FreeBSD"),
    ("netbsd", "NetBSD"),
    ("linux", "Linux"),
    ("x11", "Unix"),
];

/// Bytes of a text that are looked at.
const MOST: usize = 512;

/// Never fails: an unknown text is counted as such.
pub fn classify(text: &[u8]) -> Agent {
    let text = text[..text.len().min(MOST)].to_ascii_lowercase();
    let has = |word: &str| text.windows(word.len()).any(|window| window == word.as_bytes());
    let find = |table: &[(&str, &'static str)], otherwise| {
        table.iter().find(|(word, _)| has(word)).map_or(otherwise, |(_, name)| *name)
    };
    if text.is_empty() {
        return Agent { browser: "none", system: "unknown", is_bot: true };
    }
    let is_bot = BOTS.iter().any(|word| has(word));
    let browser = if is_bot { "bot" } else { find(BROWSERS, "other") };
    Agent { browser, system: find(SYSTEMS, "unknown"), is_bot }
}

/// The name of a bot: the word with one of the known names in it, else the first word.
pub fn bot_name(text: &[u8]) -> &[u8] {
    let text = &text[..text.len().min(MOST)];
    let is_end = |byte: &u8| matches!(byte, b' ' | b';' | b'(' | b')' | b'/' | b',' | b'+');
    let has = |word: &[u8], name: &str| {
        word.len() >= name.len()
            && word.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name.as_bytes()))
    };
    let names = BOTS.iter().map(|name| name.trim_end_matches('/'));
    let is_bot = |word: &&[u8]| names.clone().any(|name| has(word, name));
    let mut words = text.split(is_end).filter(|word| !word.is_empty());
    words.clone().find(is_bot).or_else(|| words.next()).unwrap_or(b"without a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_browsers_systems_and_bots_apart() {
        let check = |text: &str, browser: &str, system: &str, bot: &str| {
            let found = classify(text.as_bytes());
            assert_eq!((found.browser, found.system), (browser, system), "{text}");
            let name =
                if found.is_bot { std::str::from_utf8(bot_name(text.as_bytes())).unwrap() } else { "" };
            assert_eq!(name, bot, "{text}");
        };
        let chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36";
        check(chrome, "Chrome", "Windows", "");
        check(&format!("{chrome} Edg/120.0"), "Edge", "Windows", "");
        check(
            "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0",
            "Firefox",
            "Linux",
            "",
        );
        check(
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605 Version/17 Safari/604",
            "Safari",
            "iOS",
            "",
        );
        check(
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "bot",
            "unknown",
            "Googlebot",
        );
        check("curl/8.5.0", "bot", "unknown", "curl");
        check("", "none", "unknown", "without a name");
        check("Strange", "other", "unknown", "");
    }
}
