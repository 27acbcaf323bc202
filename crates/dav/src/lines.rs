//! Records of text: a line for each, with tabs between its values.

/// Writes a line.
pub fn write(values: &[&str], out: &mut String) {
    for (number, value) in values.iter().enumerate() {
        if number > 0 {
            out.push('\t');
        }
        for character in value.chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                other => out.push(other),
            }
        }
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
    let (mut out, mut characters) = (String::new(), value.chars());
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
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
