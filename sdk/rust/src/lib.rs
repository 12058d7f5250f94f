//! Plugins for wasmnode in Rust, without dependencies.
//!
//! A plugin is a `cdylib` with a function for each operation that it has, which `export!`
//! names. What is not named is not exported, and a capability that is not called is not
//! imported.
//!
//! ```ignore
//! use wasmnode::*;
//!
//! wasmnode::export! {
//!     driver_describe = describe,
//!     driver_configure = configure,
//!     driver_fingerprint = fingerprint,
//!     driver_start_task = start_task,
//! }
//!
//! fn describe(_: DriverDescribeRequest) -> Result<DriverDescribeResponse, Error> {
//!     Ok(DriverDescribeResponse { name: "mine".into(), version: "0.1.0".into(), ..Default::default() })
//! }
//! ```
//!
//! The messages are those of abi/proto, with the same names. An instance of a plugin is in one
//! operation at a time, and the node may throw it away between any two. A panic is a line in
//! the node's log, and a fault.
//!
//! On a machine that is not WebAssembly the crate compiles as well: the functions of a plugin
//! are called by its tests as they are, and [`mod@test`] takes the place of the node.

#![warn(missing_docs)]

// Of its members the schema says what their names do not.
#[allow(missing_docs)]
mod generated;
mod host;
pub mod json;
#[cfg(not(target_arch = "wasm32"))]
pub mod test;
pub mod wire;

pub use generated::*;
pub use host::*;

/// Exports operations: `driver_describe = describe`, with the functions that do them. A
/// function takes the operation's request and returns its response or an [`Error`]. With WASI
/// also `_initialize`: without it the linker has each operation begin and end the whole library.
#[macro_export]
macro_rules! export {
    ($($operation:ident = $function:path),* $(,)?) => {
        const _: () = { $($crate::export_one!($operation, $function);)* };

        #[cfg(target_os = "wasi")]
        const _: () = {
            extern "C" {
                fn __wasm_call_ctors();
            }

            #[no_mangle]
            pub extern "C" fn _initialize() {
                unsafe { __wasm_call_ctors() }
            }
        };
    };
}

impl Error {
    /// An error that trying again does not help. The message is one line for a person: what
    /// went wrong, and what to do.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), recoverable: false }
    }

    /// An error that trying the same again can help.
    pub fn recoverable(code: ErrorCode, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), recoverable: true }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<wire::Refused> for Error {
    fn from(refused: wire::Refused) -> Error {
        match refused {
            wire::Refused::Malformed => Error::new(ErrorCode::INVALID_ARGUMENT, "the message makes no sense"),
            wire::Refused::TooLarge => Error::new(ErrorCode::RESOURCE_EXHAUSTED, "the message takes too much memory"),
        }
    }
}

impl From<json::Refused> for Error {
    fn from(refused: json::Refused) -> Error {
        Error::new(ErrorCode::INVALID_ARGUMENT, format!("the JSON makes no sense at byte {}", refused.at))
    }
}
