//! The patterns of `Allow` and `Deny`, as fnmatch(3) has them, made into patterns of paths beneath a folder.

use crate::brackets::is_glob;

/// Patterns that one may become.
const MAX_PATTERNS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Many,
    Any(Vec<char>),
}

/// The patterns of paths that this pattern of file names has beneath `folder`, which ends with a slash. `url` takes the
/// place of the folder. Errors: what cannot be expressed.
pub fn beneath(pattern: &str, folder: &str, url: &str) -> Result<Vec<String>, &'static str> {
    let tokens = tokens(pattern)?;
    let mut found = Vec::new();
    for rest in residuals(&tokens, folder) {
        for text in texts(rest)? {
            let pattern = path_pattern(url, &text);
            if !found.contains(&pattern) {
                found.push(pattern);
            }
        }
        if found.len() > MAX_PATTERNS {
            return Err("it has too many alternatives");
        }
    }
    Ok(found)
}

fn tokens(pattern: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let token = match c {
            '*' if tokens.last() == Some(&Token::Many) => continue,
            '*' => Token::Many,
            '?' => Token::One,
            '\\' => Token::Char(chars.next().unwrap_or('\\')),
            '[' => {
                let (set, rest) = set(chars.as_str())?;
                chars = rest.chars();
                Token::Any(set)
            }
            c => Token::Char(c),
        };
        tokens.push(token);
    }
    Ok(tokens)
}

/// The characters of a set, and what follows its bracket.
fn set(text: &str) -> Result<(Vec<char>, &str), &'static str> {
    if text.starts_with(['!', '^']) || text.starts_with("[:") {
        return Err("it has a set that excludes characters, or a class of characters");
    }
    let end = text.get(1..).and_then(|rest| rest.find(']')).ok_or("it has a bracket without its end")? + 1;
    let chars: Vec<char> = text[..end].chars().collect();
    let mut set = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        match chars[at..] {
            [from, '-', to, ..] => {
                set.extend((from..=to).take(MAX_PATTERNS + 1));
                at += 3;
            }
            _ => {
                set.push(chars[at]);
                at += 1;
            }
        }
        if set.len() > MAX_PATTERNS {
            return Err("it has a set of too many characters");
        }
    }
    Ok((set, &text[end + 1..]))
}

/// What may remain of a pattern when the beginning of a text has been matched.
fn residuals<'t>(tokens: &'t [Token], beginning: &str) -> Vec<&'t [Token]> {
    let mut states = closure(tokens, vec![0]);
    for c in beginning.chars() {
        let mut next = Vec::new();
        for at in states {
            match tokens.get(at) {
                Some(Token::Many) => next.push(at),
                Some(Token::One) => next.push(at + 1),
                Some(Token::Char(own)) if *own == c => next.push(at + 1),
                Some(Token::Any(set)) if set.contains(&c) => next.push(at + 1),
                _ => {}
            }
        }
        states = closure(tokens, next);
    }
    // A state behind an asterisk is a case of the state before it.
    let is_covered = |at: usize| at > 0 && tokens[at - 1] == Token::Many && states.contains(&(at - 1));
    states.iter().filter(|at| !is_covered(**at)).map(|at| &tokens[*at..]).collect()
}

/// An asterisk also matches nothing.
fn closure(tokens: &[Token], mut states: Vec<usize>) -> Vec<usize> {
    let mut at = 0;
    while at < states.len() {
        if tokens.get(states[at]) == Some(&Token::Many) && !states.contains(&(states[at] + 1)) {
            states.push(states[at] + 1);
        }
        at += 1;
    }
    sort::by(&mut states, Ord::cmp);
    states.dedup();
    states
}

/// The texts of a pattern without sets. Errors: a character that a pattern of paths cannot have.
fn texts(tokens: &[Token]) -> Result<Vec<String>, &'static str> {
    let mut texts = vec![String::new()];
    for token in tokens {
        match token {
            Token::Char('*' | '?' | '[' | ']' | '{' | '}') => return Err("it has an escaped wildcard"),
            Token::Char(c) => texts.iter_mut().for_each(|text| text.push(*c)),
            Token::One => texts.iter_mut().for_each(|text| text.push('?')),
            Token::Many => texts.iter_mut().for_each(|text| text.push_str("**")),
            Token::Any(set) => {
                if texts.len() * set.len() > MAX_PATTERNS {
                    return Err("it has too many alternatives");
                }
                let with = |text: &String| set.iter().map(|c| format!("{text}{c}")).collect::<Vec<_>>();
                texts = texts.iter().flat_map(with).collect();
            }
        }
    }
    Ok(texts)
}

/// A pattern for everything below a folder is its prefix.
fn path_pattern(url: &str, text: &str) -> String {
    match text.strip_suffix("**") {
        Some(folder) if !is_glob(folder) && (folder.is_empty() || folder.ends_with('/')) => {
            format!("{url}{folder}")
        }
        _ => format!("{url}{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_part_of_a_pattern_that_is_beneath_a_folder() {
        for (pattern, expected) in [
            ("/srv/www/private/*", &["/private/"][..]),
            ("/srv/www/a.html", &["/a.html"]),
            ("/srv/*", &["/"]),
            ("*", &["/"]),
            ("*.bak", &["/**.bak"]),
            ("*/private/*", &["/**/private/**", "/private/"]),
            ("/srv/www/?.html", &["/?.html"]),
            ("/srv/www/[ab][1-2]", &["/a1", "/a2", "/b1", "/b2"]),
            ("/srv/www/\\a", &["/a"]),
            ("/other/*", &[]),
            ("/srv/www", &[]),
        ] {
            let mut found = beneath(pattern, "/srv/www/", "/").unwrap();
            found.sort();
            assert_eq!(found, expected, "{pattern}");
        }
        assert_eq!(beneath("/usr/icons/*.gif", "/usr/icons/", "/icons/").unwrap(), ["/icons/**.gif"]);
    }

    #[test]
    fn says_what_no_pattern_of_paths_can_express() {
        for pattern in ["/srv/www/[!a]", "/srv/www/[[:alpha:]]", "/srv/www/[a", "/srv/www/\\*", "/srv/www/["]
        {
            assert!(beneath(pattern, "/srv/www/", "/").is_err(), "{pattern}");
        }
        assert!(beneath("/srv/www/[0-9][0-9]", "/srv/www/", "/").is_err());
        assert!(beneath("/srv/www/[\u{0}-\u{ffff}]", "/srv/www/", "/").is_err());
    }
}
