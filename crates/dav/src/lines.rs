//! Records of text: a line for each, with tabs between its values.

/// Writes a line.
pub fn write(values: &[&str], out: &mut String) {
    for (number, value) in values.iter().enumerate() {
        if number > 0 {
            out.push('\t');
        }
        let mut rest: &str = value;
        while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'\\' | b'\t' | b'\n')) {
            let (plain, escaped) = rest.split_at(at);
            out.push_str(plain);
            out.push_str(match escaped.as_bytes()[0] {
                b'\t' => "\\t",
                b'\n' => "\\n",
                _ => "\\\\",
            });
            rest = &escaped[1..];
        }
        out.push_str(rest);
    }
    out.push('\n');
}

/// The lines of a text. A carriage return is part of a value.
pub fn all(text: &str) -> impl Iterator<Item = &str> {
    text.split_terminator('\n')
}

/// The values of a line. `None`: it has another number of them.
pub fn read<const N: usize>(line: &str) -> Option<[String; N]> {
    let values: Vec<String> = line.split('\t').map(unescaped).collect();
    values.try_into().ok()
}

fn unescaped(value: &str) -> String {
    let (mut out, mut rest) = (String::new(), value);
    while let Some((plain, escaped)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut characters = escaped.chars();
        out.push(match characters.next() {
            Some('t') => '\t',
            Some('n') => '\n',
            Some(other) => other,
            None => '\\',
        });
        rest = characters.as_str();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written() {
        let table = [["a", "b"], ["", ""], ["\r", "\r"], ["\t\n", "\\n\\"], ["a\r\n", "\n\r"]];
        let mut text = String::new();
        table.iter().for_each(|values| write(values, &mut text));
        let again: Vec<[String; 2]> = all(&text).map(|line| read(line).expect("it has two values")).collect();
        assert_eq!(again, table);
        assert_eq!(read::<2>("a"), None);
    }
}
