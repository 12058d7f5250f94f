//! The calling convention, and the capabilities whose arguments are no messages.

use crate::generated::{Error, ErrorCode, LogField, LogFields, LogLevel};
use crate::wire::{self, Message};

#[cfg(target_arch = "wasm32")]
mod imports {
    #[link(wasm_import_module = "wasmnode:abi/v1")]
    extern "C" {
        #[link_name = "input"]
        pub fn abi_input(to: *mut u8);
        #[link_name = "output"]
        pub fn abi_output(from: *const u8, length: u32);
        #[link_name = "result"]
        pub fn abi_result(to: *mut u8);
    }
    #[link(wasm_import_module = "wasmnode:log/v1")]
    extern "C" {
        #[link_name = "write"]
        pub fn log_write(level: u32, message: *const u8, length: u32, fields: *const u8, fields_length: u32);
    }
    #[link(wasm_import_module = "wasmnode:task/v1")]
    extern "C" {
        #[link_name = "refresh"]
        pub fn task_refresh();
        #[link_name = "output"]
        pub fn task_output(stream: u32, from: *const u8, length: u32) -> u64;
        #[link_name = "mark"]
        pub fn task_mark(stream: u32, from: *const u8, length: u32) -> u64;
    }
    #[link(wasm_import_module = "wasmnode:stream/v1")]
    extern "C" {
        #[link_name = "read"]
        pub fn stream_read(stream: u32, to: *mut u8, length: u32) -> u64;
        #[link_name = "write"]
        pub fn stream_write(stream: u32, from: *const u8, length: u32) -> u64;
        #[link_name = "shutdown"]
        pub fn stream_shutdown(stream: u32) -> u64;
        #[link_name = "close"]
        pub fn stream_close(stream: u32) -> u64;
        #[link_name = "blocking"]
        pub fn stream_blocking(stream: u32, on: u32) -> u64;
    }
}

/// The node of a test has the same functions.
#[cfg(not(target_arch = "wasm32"))]
use crate::test::imports;

/// Does an operation: what `export!` makes of a function.
#[doc(hidden)]
pub fn operation<Q: Message, R: Message>(length: u32, function: fn(Q) -> Result<R, Error>) -> u32 {
    log_panics();
    match request(length).and_then(function) {
        Ok(response) => {
            output(&wire::encode(&response));
            0
        }
        Err(mut error) => {
            if error.code == ErrorCode::UNSPECIFIED {
                error.code = ErrorCode::UNKNOWN;
            }
            output(&wire::encode(&error));
            error.code.0 as u32
        }
    }
}

fn request<Q: Message>(length: u32) -> Result<Q, Error> {
    let mut bytes = room(length)?;
    if length > 0 {
        unsafe { imports::abi_input(bytes.as_mut_ptr()) };
    }
    Ok(wire::decode(&bytes)?)
}

fn output(answer: &[u8]) {
    unsafe { imports::abi_output(answer.as_ptr(), answer.len() as u32) };
}

/// Returns memory, or an error where there is none.
fn room(length: u32) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(length as usize).is_err() {
        return Err(Error::new(ErrorCode::RESOURCE_EXHAUSTED, "out of memory"));
    }
    bytes.resize(length as usize, 0);
    Ok(bytes)
}

/// Fetches what a capability answered.
pub(crate) fn answered<R: Message>(status: u64) -> Result<R, Error> {
    let answer = fetch(status)?;
    Ok(wire::decode(&answer)?)
}

/// The same of one that answers nothing.
pub(crate) fn done(status: u64) -> Result<(), Error> {
    fetch(status).map(drop)
}

fn fetch(status: u64) -> Result<Vec<u8>, Error> {
    let (code, length) = ((status >> 32) as i32, status as u32);
    let mut answer = room(length)?;
    if length > 0 {
        unsafe { imports::abi_result(answer.as_mut_ptr()) };
    }
    if code == 0 {
        return Ok(answer);
    }
    let mut error: Error = wire::decode(&answer).unwrap_or_default();
    error.code = ErrorCode(code);
    Err(error)
}

/// On success the lower half of a status counts bytes.
fn moved(status: u64) -> Result<usize, Error> {
    if status >> 32 == 0 {
        return Ok(status as u32 as usize);
    }
    fetch(status).map(|_| 0)
}

/// Makes a panic a line in the node's log, before it ends the instance.
fn log_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if cfg!(target_arch = "wasm32") {
        ONCE.call_once(|| std::panic::set_hook(Box::new(|panic| log(LogLevel::ERROR, &panic.to_string()))));
    }
}

/// Writes a line into the node's log.
pub fn log(level: LogLevel, line: &str) {
    log_fields(level, line, &[]);
}

/// Writes a line with fields, keys and their values.
pub fn log_fields(level: LogLevel, line: &str, fields: &[(&str, &str)]) {
    let fields = fields.iter().map(|(key, value)| LogField { key: (*key).into(), value: (*value).into() }).collect();
    let fields = wire::encode(&LogFields { fields });
    unsafe { imports::log_write(level.0 as u32, line.as_ptr(), line.len() as u32, fields.as_ptr(), fields.len() as u32) };
}

/// Asks the node to poll the fingerprint soon.
pub fn task_refresh() {
    unsafe { imports::task_refresh() };
}

/// Writes to the log files of the task that the call is about: stream 1 is standard output, 2
/// standard error.
pub fn task_output(stream: u32, bytes: &[u8]) -> Result<(), Error> {
    done(unsafe { imports::task_output(stream, bytes.as_ptr(), bytes.len() as u32) })
}

/// Remembers up to 256 bytes with what the stream of the task's output has so far.
pub fn task_mark(stream: u32, mark: &[u8]) -> Result<(), Error> {
    done(unsafe { imports::task_mark(stream, mark.as_ptr(), mark.len() as u32) })
}

/// Reads at least one byte, and answers how many; 0 is the end of the stream. After
/// `stream_blocking(stream, false)` it fails with UNAVAILABLE instead of waiting.
pub fn stream_read(stream: u32, to: &mut [u8]) -> Result<usize, Error> {
    moved(unsafe { imports::stream_read(stream, to.as_mut_ptr(), to.len() as u32) })
}

/// Writes at least one byte, and answers how many.
pub fn stream_write(stream: u32, bytes: &[u8]) -> Result<usize, Error> {
    moved(unsafe { imports::stream_write(stream, bytes.as_ptr(), bytes.len() as u32) })
}

/// Says that nothing more is written; reading goes on.
pub fn stream_shutdown(stream: u32) -> Result<(), Error> {
    done(unsafe { imports::stream_shutdown(stream) })
}

/// Closes a stream.
pub fn stream_close(stream: u32) -> Result<(), Error> {
    done(unsafe { imports::stream_close(stream) })
}

/// Says whether reads and writes wait.
pub fn stream_blocking(stream: u32, on: bool) -> Result<(), Error> {
    done(unsafe { imports::stream_blocking(stream, u32::from(on)) })
}
