//! Reads the JSON of configurations. The node has checked it against the plugin's schema and
//! filled in its defaults, so that a plugin asks for values and has no errors to check: what is
//! not there, or of another type, is empty.

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`, and what is not there.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// As it was written.
    Number(String),
    /// A text, without its quotes and escapes.
    Text(String),
    /// Values in their order.
    List(Vec<Json>),
    /// Of members with the same name the last one counts.
    Object(Vec<(String, Json)>),
}

/// Where a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The byte, from 0.
    pub at: usize,
}

/// Objects and lists in one another.
const DEPTH: usize = 64;

impl Json {
    /// Reads one value.
    pub fn parse(text: &[u8]) -> Result<Json, Refused> {
        let mut p = Parser { text, at: 0 };
        p.value(0).filter(|_| p.space().is_none()).ok_or(Refused { at: p.at })
    }

    /// The member of an object; null where there is none.
    pub fn get(&self, name: &str) -> &Json {
        match self {
            Json::Object(members) => members.iter().rev().find(|m| m.0 == name).map_or(&Json::Null, |m| &m.1),
            _ => &Json::Null,
        }
    }

    /// A text; empty for what is none.
    pub fn text(&self) -> &str {
        match self {
            Json::Text(text) => text,
            _ => "",
        }
    }

    /// Whether it is `true`.
    pub fn bool(&self) -> bool {
        *self == Json::Bool(true)
    }

    /// A whole number; 0 for one that is none or does not fit.
    pub fn int(&self) -> i64 {
        match self {
            Json::Number(n) => n.parse().unwrap_or(0),
            _ => 0,
        }
    }

    /// A number; 0 for what is none.
    pub fn float(&self) -> f64 {
        match self {
            Json::Number(n) => n.parse().unwrap_or(0.0),
            _ => 0.0,
        }
    }

    /// The elements of a list.
    pub fn items(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }

    /// The texts of a list.
    pub fn texts(&self) -> Vec<String> {
        self.items().iter().map(|item| item.text().to_owned()).collect()
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    /// Skips white space, and returns the byte behind it.
    fn space(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.text.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEPTH {
            return None;
        }
        match self.space()? {
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => self.string().map(Json::Text),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'n' => self.word("null", Json::Null),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Option<Json> {
        word.bytes().try_for_each(|byte| self.skip(byte)).map(|()| value)
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        let mut members = Vec::new();
        self.skip(b'{')?;
        if self.space()? != b'}' {
            loop {
                self.space()?;
                let name = self.string()?;
                self.space()?;
                self.skip(b':')?;
                members.push((name, self.value(depth + 1)?));
                self.space()?;
                if self.skip(b',').is_none() {
                    break;
                }
            }
        }
        self.skip(b'}').map(|()| Json::Object(members))
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        let mut items = Vec::new();
        self.skip(b'[')?;
        if self.space()? != b']' {
            loop {
                items.push(self.value(depth + 1)?);
                self.space()?;
                if self.skip(b',').is_none() {
                    break;
                }
            }
        }
        self.skip(b']').map(|()| Json::List(items))
    }

    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while self.text.get(self.at).map_or(false, u8::is_ascii_digit) {
            self.at += 1;
        }
        (self.at > from).then(|| ())
    }

    fn number(&mut self) -> Option<Json> {
        let from = self.at;
        self.skip(b'-');
        self.skip(b'0').or_else(|| self.digits())?;
        if self.skip(b'.').is_some() {
            self.digits()?;
        }
        if self.skip(b'e').or_else(|| self.skip(b'E')).is_some() {
            self.skip(b'+').or_else(|| self.skip(b'-'));
            self.digits()?;
        }
        Some(Json::Number(String::from_utf8_lossy(&self.text[from..self.at]).into_owned()))
    }

    fn string(&mut self) -> Option<String> {
        let mut bytes = Vec::new();
        self.skip(b'"')?;
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => return Some(String::from_utf8_lossy(&bytes).into_owned()),
                b'\\' => self.escape(&mut bytes)?,
                0..=31 => return None,
                _ => bytes.push(byte),
            }
        }
    }

    fn escape(&mut self, to: &mut Vec<u8>) -> Option<()> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        to.push(match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let c = self.unicode()?;
                to.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Some(());
            }
            _ => return None,
        });
        Some(())
    }

    /// Reads what follows "\u", with the second half of a pair. Half a pair becomes U+FFFD.
    fn unicode(&mut self) -> Option<char> {
        let high = self.hex()?;
        let after = self.at;
        if (0xd800..0xdc00).contains(&high) && self.skip(b'\\').and_then(|()| self.skip(b'u')).is_some() {
            match self.hex() {
                Some(low @ 0xdc00..=0xdfff) => return char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)),
                _ => self.at = after,
            }
        } else {
            self.at = after;
        }
        Some(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Option<u32> {
        let four = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        four.iter().try_fold(0, |v, byte| Some(v << 4 | char::from(*byte).to_digit(16)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn values_are_read_and_what_is_not_there_is_empty() {
        let v = parse(r#" {"a": [1, -2.5e3, true, null], "b": "x\n\u00fc\ud83d\ude00\ud800\u0041", "a": ["last", 1]} "#);
        assert_eq!(v.get("a").texts(), ["last", ""]);
        assert_eq!(v.get("b").text(), "x\nü😀\u{fffd}A");
        assert_eq!(v.get("c").get("d").text(), "");
        assert!(parse("true").bool() && !parse("false").bool() && !parse("1").bool());
        assert_eq!(parse("-9223372036854775808").int(), i64::MIN);
        assert_eq!((parse("9223372036854775808").int(), parse("1.5").int()), (0, 0));
        assert_eq!(parse("-2.5e3").float(), -2500.0);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "", " ", "{", "[1", "[1,]", "{\"a\"}", "{\"a\":}", "{a:1}", "\"", "\"\\", "\"\\u12\"", "\"\\x\"", "\"\n\"", "01", "-", "1.",
            "1e", "tru", "nulls", "1 2", "[}", "\"a", "\"\\\"",
        ] {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text}");
        }
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(Json::parse(nested(DEPTH).as_bytes()).is_ok());
        assert!(Json::parse(nested(DEPTH + 2).as_bytes()).is_err());
    }
}
