//! Classes of characters, such as `[0-9]+`. A pattern has one character of private use for each.

/// The first characters and the last ones of what a class can have. The hyphen is the last, where it begins no range.
const PARTS: [(char, char); 10] = [
    ('0', '9'),
    ('A', 'Z'),
    ('a', 'z'),
    ('A', 'F'),
    ('a', 'f'),
    ('_', '_'),
    ('.', '.'),
    ('+', '+'),
    ('~', '~'),
    ('-', '-'),
];
const UPPER: u32 = 1 << 1 | 1 << 3;
const LOWER: u32 = 1 << 2 | 1 << 4;
/// How far the bit of an upper part is from that of its lower one.
const CASE: u32 = 1;
/// It stands for one character or more.
const MANY: u32 = 1 << PARTS.len();
/// The character of a class without parts: the first one of a plane for private use.
const FIRST: u32 = 0xF_0000;
/// Repetitions that are written out.
const MAX_COUNT: usize = 8;

/// A class of characters of ASCII, without the slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class(u32);

impl Class {
    /// The class that a character of a pattern stands for.
    pub fn of(c: char) -> Option<Class> {
        let bits = u32::from(c).checked_sub(FIRST)?;
        (bits < 2 * MANY && bits & !MANY != 0).then_some(Class(bits))
    }

    /// Reads `[a-z_]`, `\d` or `\w` from the beginning of an expression, and how many characters it has. `None`: it is
    /// something else, or a pattern has no such class.
    pub fn read(text: &[char]) -> Option<(Class, usize)> {
        match text {
            ['\\', letter, ..] => Some((Class(escaped(*letter)?), 2)),
            ['[', inside @ ..] => bracketed(inside).map(|(class, length)| (class, length + 1)),
            _ => None,
        }
    }

    /// As a character of a pattern.
    pub fn character(self) -> char {
        char::from_u32(FIRST + self.0).unwrap_or_default()
    }

    /// As a configuration has it.
    pub fn written(self) -> String {
        let all: String = self.parts().map(written).collect();
        format!("[{all}]{}", if self.is_many() { "+" } else { "" })
    }

    fn parts(self) -> impl Iterator<Item = (char, char)> {
        let all = PARTS.into_iter().enumerate();
        all.filter(move |(at, _)| self.0 >> at & 1 == 1).map(|(_, part)| part)
    }

    pub fn is_many(self) -> bool {
        self.0 & MANY != 0
    }

    pub fn has(self, c: char) -> bool {
        self.parts().any(|(first, last)| (first..=last).contains(&c))
    }

    /// Whether it has letters.
    pub fn has_case(self) -> bool {
        self.0 & (UPPER | LOWER) != 0
    }

    /// With all letters in both cases.
    pub fn in_any_case(self) -> Class {
        Class(self.0 | (self.0 & UPPER) << CASE | (self.0 & LOWER) >> CASE)
    }

    /// The classes that a class with its quantifier, which `text` begins with, is in a pattern, the longest first, and how
    /// many characters the quantifier has. `None`: it takes another part than a pattern would, or too many characters.
    pub fn repeated(self, text: &[char]) -> Option<(Vec<Vec<Class>>, usize)> {
        let many = Class(self.0 | MANY);
        let (all, length) = match text {
            ['+', ..] => (vec![vec![many]], 1),
            ['*', ..] => (vec![vec![many], Vec::new()], 1),
            ['{', inside @ ..] => {
                let end = inside.iter().position(|c| *c == '}')?;
                let inside: String = inside[..end].iter().collect();
                let (least, most) = inside.split_once(',').unwrap_or((&inside, &inside));
                let least = count(least)?;
                let all = match most {
                    "" if least == 0 => vec![vec![many], Vec::new()],
                    "" => vec![[vec![self; least - 1], vec![many]].concat()],
                    most => (least..=count(most)?).rev().map(|count| vec![self; count]).collect(),
                };
                (all, end + 2)
            }
            _ => return Some((vec![vec![self]], 0)),
        };
        let is_greedy = !matches!(text.get(length), Some('?' | '+' | '*' | '{'));
        (is_greedy && !all.is_empty()).then_some((all, length))
    }
}

fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|count| *count <= MAX_COUNT && text.len() == 1)
}

fn written((first, last): (char, char)) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// The bit of a part.
fn part(first: char, last: char) -> Option<u32> {
    PARTS.iter().position(|part| *part == (first, last)).map(|at| 1 << at)
}

/// What stands behind a backslash.
fn escaped(letter: char) -> Option<u32> {
    let digits = part('0', '9')?;
    match letter {
        'd' => Some(digits),
        'w' => Some(digits | part('A', 'Z')? | part('a', 'z')? | part('_', '_')?),
        _ => None,
    }
}

/// The class whose characters begin here, and how many characters it has with its end.
fn bracketed(text: &[char]) -> Option<(Class, usize)> {
    let (mut bits, mut at) = (0, 0);
    loop {
        let (found, length) = match text.get(at..)? {
            [']', ..] if at > 0 => break,
            ['\\', c, ..] if c.is_ascii_punctuation() => (part(*c, *c)?, 2),
            ['\\', c, ..] => (escaped(*c)?, 2),
            [first, '-', last, ..] if *last != ']' => (part(*first, *last)?, 3),
            [c, ..] => (part(*c, *c)?, 1),
            [] => return None,
        };
        bits |= found;
        at += length;
    }
    // A class of one character is that character in a pattern.
    let is_one = PARTS.iter().any(|(first, last)| first == last && part(*first, *last) == Some(bits));
    (!is_one).then_some((Class(bits), at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, usize)> {
        let text: Vec<char> = text.chars().collect();
        Class::read(&text).map(|(class, length)| (class.written(), length))
    }

    #[test]
    fn reads_the_classes_that_patterns_have() {
        for (text, expected) in [
            ("[0-9]+", "[0-9]"),
            ("\\d", "[0-9]"),
            ("\\w", "[0-9A-Za-z_]"),
            ("[a-z0-9_-]", "[0-9a-z_-]"),
            ("[-a-z]", "[a-z-]"),
            ("[\\w.-]", "[0-9A-Za-z_.-]"),
            ("[a-z-_]", "[a-z_-]"),
            ("[a-f\\d]", "[0-9a-f]"),
            ("[\\w\\-\\.]", "[0-9A-Za-z_.-]"),
        ] {
            assert_eq!(read(text).map(|(written, _)| written).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(read("[0-9]x").map(|(_, length)| length), Some(5));
        for text in [
            "[^0-9]", "[0-9", "[]", "[]0-9]", "[0-5]", "[+-9]", "[_-.]", "[0-9/]", "[-]", "[ä-ü]", "\\s",
            "[\\D]", "[",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn repeats_a_class() {
        for (text, expected) in [
            ("+", Some("[0-9]+")),
            ("*x", Some("[0-9]+ ")),
            ("x", Some("[0-9]")),
            ("?", Some("[0-9]")),
            ("{3}", Some("[0-9][0-9][0-9]")),
            ("{1,2}", Some("[0-9][0-9] [0-9]")),
            ("{2,}", Some("[0-9][0-9]+")),
            ("{0,}", Some("[0-9]+ ")),
            ("{0,1}", Some("[0-9] ")),
            ("{9}", None),
            ("{2,1}", None),
            ("{,2}", None),
            ("{2", None),
            ("+?", None),
            ("*+", None),
            ("{2}?", None),
        ] {
            let text: Vec<char> = text.chars().collect();
            let digits = Class(1);
            let found = digits.repeated(&text).map(|(all, _)| {
                let one = |one: &Vec<Class>| one.iter().map(|class| class.written()).collect::<String>();
                all.iter().map(one).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn is_one_character_of_a_pattern() {
        let classes = (1..2 * MANY).filter_map(|bits| Class::of(char::from_u32(FIRST + bits)?));
        assert!(
            classes.map(|class| (Class::of(class.character()), class)).all(|(of, class)| of == Some(class))
        );
        for c in ['a', '[', '\u{F0000}', '\u{EFFFF}', '\u{10FEFF}'] {
            assert_eq!(Class::of(c), None, "{c:?}");
        }
        assert_eq!(Class(UPPER & 0b111).in_any_case(), Class(0b110));
        assert_eq!(Class(1 << 4).in_any_case(), Class(1 << 3 | 1 << 4));
    }
}
