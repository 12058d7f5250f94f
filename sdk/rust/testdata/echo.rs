//! Decodes each message that it reads and writes it again, as ../../c/testdata/echo.c does.
//! With the argument "golden" it prints messages that it made by name, as package sdktest does
//! in Go.

use std::io::{Read, Write};
use wasmnode::*;

fn echo<M: wire::Message>(bytes: &[u8]) -> (ErrorCode, Vec<u8>) {
    match wire::decode::<M>(bytes) {
        Ok(message) => (ErrorCode::UNSPECIFIED, wire::encode(&message)),
        Err(refused) => (Error::from(refused).code, Vec::new()),
    }
}

macro_rules! echo_by_name {
    ($($name:ident,)*) => {
        fn echo_by_name(name: &[u8], bytes: &[u8]) -> (ErrorCode, Vec<u8>) {
            $(if name == stringify!($name).as_bytes() { return echo::<$name>(bytes); })*
            panic!("no message {:?}", name)
        }
    };
}

wasmnode::each_message!(echo_by_name);

fn print(name: &str, message: &impl wire::Message) {
    let hex: String = wire::encode(message).iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{name} {hex}");
}

fn golden() {
    let resources = Resources { cpu_mhz: 500, memory_bytes: 1 << 33, cores: vec![0, 1, 300], ..Default::default() };
    let task = TaskConfig {
        id: "id".into(),
        namespace: "default".into(),
        env: [("KEY".into(), "value".into())].into(),
        resources: Some(resources),
        ports: vec![
            Port { label: "http".into(), host_ip: "::1".into(), host_port: 8080, task_port: 80 },
            Port { label: "db".into(), ..Default::default() },
        ],
        driver_config: b"{}".to_vec(),
        ..Default::default()
    };
    print("task", &task);
    let stat = StatValue {
        value: Some(StatValueValue::IntValue(-1)),
        denominator: Some(StatValueDenominator::FloatDenominator(0.5)),
        unit: "MiB".into(),
        ..Default::default()
    };
    print("stat", &stat);
    let result = ExitResult { exit_code: -1, signal: 9, oom_killed: true, ..Default::default() };
    print("exec", &DriverExecTaskResponse { stdout: b"out".to_vec(), stderr: b"err".to_vec(), result: Some(result) });
    print("set", &KvSetRequest { key: "k".into(), version: Some(0), ..Default::default() });
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("golden") {
        return golden();
    }
    let (mut all, mut out) = (Vec::new(), Vec::new());
    std::io::stdin().read_to_end(&mut all).unwrap();
    let mut rest = &all[..];
    while let Some((&size, tail)) = rest.split_first() {
        let (name, tail) = tail.split_at(size as usize);
        let (length, tail) = tail.split_at(4);
        let (bytes, tail) = tail.split_at(u32::from_le_bytes(length.try_into().unwrap()) as usize);
        let (code, answer) = echo_by_name(name, bytes);
        out.push(code.0 as u8);
        out.extend_from_slice(&(answer.len() as u32).to_le_bytes());
        out.extend_from_slice(&answer);
        rest = tail;
    }
    std::io::stdout().write_all(&out).unwrap();
}
