//! The codec: Protocol Buffers, as far as the schema uses them.
//!
//! Input may be hostile: it is refused, never trusted. A message of a few bytes can stand for
//! one of hundreds in memory, so that reading has a budget.

use std::collections::BTreeMap;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// They make no sense.
    Malformed,
    /// The message would take more than its memory.
    TooLarge,
}

/// What a message may take of memory once it is read.
pub const MEMORY_MAX: usize = 64 << 20;

/// What is left of a message's memory.
pub struct Budget(usize);

impl Budget {
    fn take(&mut self, bytes: usize) -> Result<(), Refused> {
        self.0 = self.0.checked_sub(bytes).ok_or(Refused::TooLarge)?;
        Ok(())
    }

    /// An unknown field takes none.
    pub(crate) fn nothing(&self) {}
}

/// What follows a tag.
pub enum Value<'a> {
    /// A number in as many bytes as it needs.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
    /// Of a kind that no known field has.
    Other,
}

/// A message of the schema.
pub trait Message: Default {
    /// Appends the message's bytes.
    fn write(&self, to: &mut Vec<u8>);
    /// Takes a field that was read; one that is not known changes nothing.
    fn set(&mut self, number: i32, v: &Value<'_>, budget: &mut Budget) -> Result<(), Refused>;
}

/// Returns a message as bytes.
pub fn encode<M: Message>(message: &M) -> Vec<u8> {
    let mut to = Vec::new();
    message.write(&mut to);
    to
}

/// Reads a message of at most [`MEMORY_MAX`]. Unknown fields are skipped; text that is not
/// UTF-8 becomes U+FFFD.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<M, Refused> {
    let mut message = M::default();
    read(&mut message, bytes, &mut Budget(MEMORY_MAX))?;
    Ok(message)
}

fn read<M: Message>(message: &mut M, mut bytes: &[u8], budget: &mut Budget) -> Result<(), Refused> {
    while !bytes.is_empty() {
        let (number, v) = next(&mut bytes)?;
        message.set(number, &v, budget)?;
    }
    Ok(())
}

fn next<'a>(bytes: &mut &'a [u8]) -> Result<(i32, Value<'a>), Refused> {
    let tag = varint(bytes)?;
    match (tag >> 3) as i32 {
        number if number > 0 => Ok((number, value(bytes, tag)?)),
        _ => Err(Refused::Malformed),
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Refused> {
    let mut v = 0;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        if i == 9 && byte > 1 {
            break;
        }
        v |= u64::from(byte & 127) << (7 * i);
        if byte < 128 {
            *bytes = &bytes[i + 1..];
            return Ok(v);
        }
    }
    Err(Refused::Malformed)
}

fn cut<'a>(bytes: &mut &'a [u8], size: u64) -> Result<&'a [u8], Refused> {
    if size > bytes.len() as u64 {
        return Err(Refused::Malformed);
    }
    let (head, tail) = bytes.split_at(size as usize);
    *bytes = tail;
    Ok(head)
}

fn value<'a>(bytes: &mut &'a [u8], tag: u64) -> Result<Value<'a>, Refused> {
    match tag & 7 {
        0 => Ok(Value::Varint(varint(bytes)?)),
        1 => {
            let mut eight = [0; 8];
            eight.copy_from_slice(cut(bytes, 8)?);
            Ok(Value::Fixed64(u64::from_le_bytes(eight)))
        }
        2 => {
            let size = varint(bytes)?;
            Ok(Value::Bytes(cut(bytes, size)?))
        }
        3 => group(bytes),
        5 => cut(bytes, 4).map(|_| Value::Other),
        _ => Err(Refused::Malformed),
    }
}

/// Skips a group, which nothing writes any more, with those that it holds.
fn group<'a>(bytes: &mut &'a [u8]) -> Result<Value<'a>, Refused> {
    let mut depth = 1;
    while depth > 0 {
        let tag = varint(bytes)?;
        match tag & 7 {
            3 if depth == 100 => return Err(Refused::Malformed),
            3 => depth += 1,
            4 => depth -= 1,
            _ => drop(value(bytes, tag)?),
        }
    }
    Ok(Value::Other)
}

// What a known field is read with.

fn number(v: &Value<'_>) -> Result<u64, Refused> {
    match v {
        Value::Varint(n) => Ok(*n),
        _ => Err(Refused::Malformed),
    }
}

fn contents<'a>(v: &Value<'a>) -> Result<&'a [u8], Refused> {
    match v {
        Value::Bytes(b) => Ok(b),
        _ => Err(Refused::Malformed),
    }
}

pub(crate) fn take_bool(v: &Value<'_>, _: &mut Budget) -> Result<bool, Refused> {
    Ok(number(v)? != 0)
}

pub(crate) fn take_i32(v: &Value<'_>, _: &mut Budget) -> Result<i32, Refused> {
    Ok(number(v)? as i32)
}

pub(crate) fn take_u32(v: &Value<'_>, _: &mut Budget) -> Result<u32, Refused> {
    Ok(number(v)? as u32)
}

pub(crate) fn take_i64(v: &Value<'_>, _: &mut Budget) -> Result<i64, Refused> {
    Ok(number(v)? as i64)
}

pub(crate) fn take_u64(v: &Value<'_>, _: &mut Budget) -> Result<u64, Refused> {
    number(v)
}

pub(crate) fn take_f64(v: &Value<'_>, _: &mut Budget) -> Result<f64, Refused> {
    match v {
        Value::Fixed64(bits) => Ok(f64::from_bits(*bits)),
        _ => Err(Refused::Malformed),
    }
}

/// What a text takes beside its bytes, and twice that: a list that grows is copied.
const TEXT: usize = 2 * std::mem::size_of::<String>();

pub(crate) fn take_bytes(v: &Value<'_>, budget: &mut Budget) -> Result<Vec<u8>, Refused> {
    let bytes = contents(v)?;
    budget.take(bytes.len() + TEXT)?;
    Ok(bytes.to_vec())
}

pub(crate) fn take_text(v: &Value<'_>, budget: &mut Budget) -> Result<String, Refused> {
    let bytes = contents(v)?;
    budget.take(bytes.len() + TEXT)?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

pub(crate) fn take_packed(list: &mut Vec<u32>, v: &Value<'_>, budget: &mut Budget) -> Result<(), Refused> {
    let mut bytes = match v {
        Value::Bytes(b) => *b,
        _ => {
            budget.take(8)?;
            list.push(take_u32(v, budget)?);
            return Ok(());
        }
    };
    while !bytes.is_empty() {
        budget.take(8)?;
        list.push(varint(&mut bytes)? as u32);
    }
    Ok(())
}

/// Reads a message into the one that is there.
pub(crate) fn merge<M: Message>(to: &mut M, v: &Value<'_>, budget: &mut Budget) -> Result<(), Refused> {
    read(to, contents(v)?, budget)
}

pub(crate) fn push<M: Message>(list: &mut Vec<M>, v: &Value<'_>, budget: &mut Budget) -> Result<(), Refused> {
    budget.take(2 * std::mem::size_of::<M>())?;
    let mut message = M::default();
    merge(&mut message, v, budget)?;
    list.push(message);
    Ok(())
}

/// Reads an entry of a map; `set` reads its value.
pub(crate) fn take_entry<T: Default>(
    map: &mut BTreeMap<String, T>,
    v: &Value<'_>,
    budget: &mut Budget,
    set: impl Fn(&mut T, &Value<'_>, &mut Budget) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let (mut key, mut value) = (String::new(), T::default());
    let mut bytes = contents(v)?;
    budget.take(2 * std::mem::size_of::<(String, T)>())?;
    while !bytes.is_empty() {
        match next(&mut bytes)? {
            (1, v) => key = take_text(&v, budget)?,
            (2, v) => set(&mut value, &v, budget)?,
            _ => {}
        }
    }
    map.insert(key, value);
    Ok(())
}

// What a field is written with.

fn put_varint(to: &mut Vec<u8>, mut v: u64) {
    while v > 127 {
        to.push(v as u8 | 128);
        v >>= 7;
    }
    to.push(v as u8);
}

fn put_tag(to: &mut Vec<u8>, number: u32, wire: u32) {
    put_varint(to, u64::from(number << 3 | wire));
}

/// Writes bytes whose length is known when they are there.
fn put_contents(to: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_tag(to, number, 2);
    let begin = to.len();
    write(to);
    let end = to.len();
    put_varint(to, (end - begin) as u64);
    let length = to.len() - end;
    to[begin..].rotate_right(length);
}

pub(crate) fn put_bool(to: &mut Vec<u8>, number: u32, v: &bool) {
    put_u64(to, number, &u64::from(*v));
}

pub(crate) fn put_i32(to: &mut Vec<u8>, number: u32, v: &i32) {
    put_i64(to, number, &i64::from(*v));
}

pub(crate) fn put_u32(to: &mut Vec<u8>, number: u32, v: &u32) {
    put_u64(to, number, &u64::from(*v));
}

pub(crate) fn put_i64(to: &mut Vec<u8>, number: u32, v: &i64) {
    put_u64(to, number, &(*v as u64));
}

pub(crate) fn put_u64(to: &mut Vec<u8>, number: u32, v: &u64) {
    put_tag(to, number, 0);
    put_varint(to, *v);
}

pub(crate) fn put_f64(to: &mut Vec<u8>, number: u32, v: &f64) {
    put_tag(to, number, 1);
    to.extend_from_slice(&v.to_bits().to_le_bytes());
}

pub(crate) fn put_bytes(to: &mut Vec<u8>, number: u32, v: &[u8]) {
    put_tag(to, number, 2);
    put_varint(to, v.len() as u64);
    to.extend_from_slice(v);
}

pub(crate) fn put_text(to: &mut Vec<u8>, number: u32, v: &str) {
    put_bytes(to, number, v.as_bytes());
}

pub(crate) fn put_message<M: Message>(to: &mut Vec<u8>, number: u32, v: &M) {
    put_contents(to, number, |to| v.write(to));
}

pub(crate) fn put_packed(to: &mut Vec<u8>, number: u32, list: &[u32]) {
    if !list.is_empty() {
        put_contents(to, number, |to| list.iter().for_each(|v| put_varint(to, u64::from(*v))));
    }
}

pub(crate) fn put_entry(to: &mut Vec<u8>, number: u32, key: &str, value: impl FnOnce(&mut Vec<u8>)) {
    put_contents(to, number, |to| {
        put_text(to, 1, key);
        value(to);
    });
}
