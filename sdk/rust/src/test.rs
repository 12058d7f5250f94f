//! A node for tests on the machine that a plugin is written on.
//!
//! A test calls the functions of the plugin as they are. Their capabilities are answered by
//! what [`host`] was given, and without it with UNIMPLEMENTED. Each thread, and so each test,
//! has a node of its own.

use crate::generated::{Error, ErrorCode};
use crate::wire::{self, Message};
use std::cell::RefCell;

/// Answers a capability, such as "wasm_start", whose request is encoded.
type Host = Box<dyn FnMut(&str, &[u8]) -> Result<Vec<u8>, Error>>;

#[derive(Default)]
struct Node {
    host: Option<Host>,
    input: Vec<u8>,
    output: Option<Vec<u8>>,
    staged: Vec<u8>,
    log: Vec<String>,
    written: Vec<u8>,
}

thread_local!(static NODE: RefCell<Node> = RefCell::default());

/// Sets what answers the capabilities from now on.
pub fn host(answer: impl FnMut(&str, &[u8]) -> Result<Vec<u8>, Error> + 'static) {
    NODE.with(|node| node.borrow_mut().host = Some(Box::new(answer)));
}

/// Returns a message as the answer of a capability.
pub fn answer<M: Message>(message: &M) -> Result<Vec<u8>, Error> {
    Ok(wire::encode(message))
}

/// Returns the lines that were logged so far.
pub fn logged() -> Vec<String> {
    NODE.with(|node| node.borrow().log.clone())
}

/// Returns what was written to the task's standard output and standard error so far.
pub fn written() -> Vec<u8> {
    NODE.with(|node| node.borrow().written.clone())
}

/// Calls an exported operation with bytes, as the node does, and returns its code and answer.
pub fn call(operation: extern "C" fn(u32) -> u32, request: &[u8]) -> (u32, Vec<u8>) {
    NODE.with(|node| {
        let mut node = node.borrow_mut();
        node.input = request.to_vec();
        node.output = None;
    });
    let code = operation(request.len() as u32);
    let answer = NODE.with(|node| node.borrow_mut().output.take());
    (code, answer.expect("the operation has no answer: that is a fault"))
}

/// Asks the host, and keeps what it answers. While it does, it is not there.
pub(crate) fn capability(name: &str, request: &[u8]) -> u64 {
    let mut host = NODE.with(|node| node.borrow_mut().host.take());
    let answer = match &mut host {
        Some(host) => host(name, request),
        None => Err(Error::new(ErrorCode::UNIMPLEMENTED, format!("nothing answers {name}"))),
    };
    let (code, bytes) = match answer {
        Ok(bytes) => (0, bytes),
        Err(error) => (error.code.0 as u64, wire::encode(&error)),
    };
    NODE.with(|node| {
        let mut node = node.borrow_mut();
        node.host = host;
        node.staged = bytes;
        code << 32 | node.staged.len() as u64
    })
}

/// The functions of the node that take and give memory.
pub(crate) mod imports {
    use super::{capability, NODE};
    use std::slice::from_raw_parts;

    pub unsafe fn abi_input(to: *mut u8) {
        NODE.with(|node| to.copy_from(node.borrow().input.as_ptr(), node.borrow().input.len()));
    }

    pub unsafe fn abi_output(from: *const u8, length: u32) {
        let answer = from_raw_parts(from, length as usize).to_vec();
        let before = NODE.with(|node| node.borrow_mut().output.replace(answer));
        assert!(before.is_none(), "a second answer is a fault");
    }

    pub unsafe fn abi_result(to: *mut u8) {
        NODE.with(|node| to.copy_from(node.borrow().staged.as_ptr(), node.borrow().staged.len()));
    }

    pub unsafe fn log_write(_: u32, line: *const u8, length: u32, _: *const u8, _: u32) {
        let line = String::from_utf8_lossy(from_raw_parts(line, length as usize)).into_owned();
        NODE.with(|node| node.borrow_mut().log.push(line));
    }

    pub unsafe fn task_refresh() {
        capability("task_refresh", &[]);
    }

    pub unsafe fn task_output(_: u32, from: *const u8, length: u32) -> u64 {
        NODE.with(|node| node.borrow_mut().written.extend_from_slice(from_raw_parts(from, length as usize)));
        0
    }

    pub unsafe fn task_mark(_: u32, from: *const u8, length: u32) -> u64 {
        capability("task_mark", from_raw_parts(from, length as usize))
    }

    /// Is answered with the bytes that there is room for.
    pub unsafe fn stream_read(_: u32, to: *mut u8, length: u32) -> u64 {
        let status = capability("stream_read", &[]);
        if status >> 32 != 0 {
            return status;
        }
        NODE.with(|node| {
            let n = node.borrow().staged.len().min(length as usize);
            to.copy_from(node.borrow().staged.as_ptr(), n);
            n as u64
        })
    }

    /// Takes all.
    pub unsafe fn stream_write(_: u32, from: *const u8, length: u32) -> u64 {
        match capability("stream_write", from_raw_parts(from, length as usize)) {
            status if status >> 32 != 0 => status,
            _ => u64::from(length),
        }
    }

    pub unsafe fn stream_shutdown(_: u32) -> u64 {
        capability("stream_shutdown", &[])
    }

    pub unsafe fn stream_close(_: u32) -> u64 {
        capability("stream_close", &[])
    }

    pub unsafe fn stream_blocking(_: u32, _: u32) -> u64 {
        capability("stream_blocking", &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::*;

    #[test]
    fn a_capability_without_an_answer_to_fetch_has_its_code() {
        host(|_, _| Err(Error::recoverable(ErrorCode::UNAVAILABLE, "later")));
        let error = stream_write(7, b"x").unwrap_err();
        assert_eq!(error, Error::recoverable(ErrorCode::UNAVAILABLE, "later"));
        host(|_, _| Ok(b"hello".to_vec()));
        let mut three = [0; 3];
        assert_eq!(stream_read(7, &mut three).unwrap(), 3);
        assert_eq!(&three, b"hel");
    }

    extern "C" fn refused(length: u32) -> u32 {
        operation::<DriverConfigureRequest, DriverConfigureResponse>(length, |_| Err(Error::default()))
    }

    #[test]
    fn an_error_has_a_code_and_garbage_is_one() {
        assert_eq!(call(refused, &[]).0, ErrorCode::UNKNOWN.0 as u32);
        assert_eq!(call(refused, &[0x0a, 0x7f]).0, ErrorCode::INVALID_ARGUMENT.0 as u32);
    }

    #[test]
    fn what_is_logged_and_written_can_be_read() {
        log_fields(LogLevel::WARN, "line", &[("key", "value")]);
        task_output(1, b"ab").unwrap();
        assert_eq!(logged(), ["line"]);
        assert_eq!(written(), b"ab");
    }

    fn reserve(request: DeviceReserveRequest) -> Result<DeviceReserveResponse, Error> {
        let edits = ContainerEdits { env: vec![format!("DEVICE={}", request.device_ids.join(","))], ..Default::default() };
        Ok(DeviceReserveResponse { container_edits: Some(edits) })
    }

    #[test]
    fn a_device_plugin_has_operations_too() {
        extern "C" fn exported(length: u32) -> u32 {
            operation(length, reserve)
        }
        let request = DeviceReserveRequest { device_ids: vec!["a".into(), "b".into()], ..Default::default() };
        let (code, answer) = call(exported, &wire::encode(&request));
        let response: DeviceReserveResponse = wire::decode(&answer).unwrap();
        assert_eq!((code, &*response.container_edits.unwrap().env[0]), (0, "DEVICE=a,b"));
    }
}
