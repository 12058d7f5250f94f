//! A driver that panics in its fingerprint, below a function of its own.

use wasmnode::*;

wasmnode::export! {
    driver_describe = describe,
    driver_configure = configure,
    driver_fingerprint = fingerprint,
    driver_start_task = start_task,
}

fn describe(_: DriverDescribeRequest) -> Result<DriverDescribeResponse, Error> {
    Ok(DriverDescribeResponse { name: "faults_rust".into(), version: "0.1.0".into(), ..Default::default() })
}

fn configure(_: DriverConfigureRequest) -> Result<DriverConfigureResponse, Error> {
    Ok(DriverConfigureResponse {})
}

fn start_task(_: DriverStartTaskRequest) -> Result<DriverStartTaskResponse, Error> {
    Ok(DriverStartTaskResponse::default())
}

#[inline(never)]
fn read_the_meter(values: &[u8]) -> u8 {
    log(LogLevel::INFO, "reading the meter");
    values.iter().copied().max().expect("there are no values")
}

fn fingerprint(_: DriverFingerprintRequest) -> Result<DriverFingerprintResponse, Error> {
    let values: Vec<u8> = std::env::args().map(|a| a.len() as u8).collect();
    Ok(DriverFingerprintResponse { description: read_the_meter(&values).to_string(), ..Default::default() })
}
