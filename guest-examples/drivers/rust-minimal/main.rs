//! The driver plugin "rust_minimal": runs the WASI program that its config names. Rust with
//! the crate of the SDK and no other.

use wasmnode::json::Json;
use wasmnode::*;

wasmnode::export! {
    driver_describe = describe,
    driver_configure = configure,
    driver_fingerprint = fingerprint,
    driver_start_task = start_task,
}

const TASK_SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["module"],
  "properties": {
    "module": {"type": "string", "minLength": 1, "description": "The WASI program to run."},
    "args": {"type": "array", "items": {"type": "string"}, "description": "Its arguments."}
  }
}"#;

fn describe(_: DriverDescribeRequest) -> Result<DriverDescribeResponse, Error> {
    Ok(DriverDescribeResponse {
        name: "rust_minimal".into(),
        version: "0.1.0".into(),
        task_config_schema: TASK_SCHEMA.into(),
        ..Default::default()
    })
}

fn configure(_: DriverConfigureRequest) -> Result<DriverConfigureResponse, Error> {
    Ok(DriverConfigureResponse {})
}

fn fingerprint(_: DriverFingerprintRequest) -> Result<DriverFingerprintResponse, Error> {
    Ok(DriverFingerprintResponse { health: HealthState::HEALTHY, description: "Healthy".into(), ..Default::default() })
}

fn start_task(request: DriverStartTaskRequest) -> Result<DriverStartTaskResponse, Error> {
    let task = request.task.ok_or_else(|| Error::new(ErrorCode::INVALID_ARGUMENT, "there is no task"))?;
    let config = Json::parse(&task.driver_config)?;
    let module = config.get("module").text();
    if module.is_empty() {
        return Err(Error::new(ErrorCode::INVALID_ARGUMENT, "config: module is missing"));
    }
    let started = wasm_start(&WasmStartRequest {
        module: module.into(),
        args: config.get("args").texts(),
        env: task.env,
        ..Default::default()
    })?;
    let handle = TaskHandle { version: 1, workload_id: started.workload_id, ..Default::default() };
    Ok(DriverStartTaskResponse { handle: Some(handle), ..Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(config: &str) -> Result<DriverStartTaskResponse, Error> {
        let task = TaskConfig { driver_config: config.into(), env: [("A".into(), "1".into())].into(), ..Default::default() };
        start_task(DriverStartTaskRequest { task: Some(task) })
    }

    #[test]
    fn a_task_is_the_program_that_its_config_names() {
        test::host(|capability, request| {
            assert_eq!(capability, "wasm_start");
            let program: WasmStartRequest = wire::decode(request).unwrap();
            assert_eq!((&*program.module, &*program.args[0], &*program.env["A"]), ("local/app.wasm", "-v", "1"));
            test::answer(&WasmStartResponse { workload_id: "workload".into() })
        });
        let handle = start(r#"{"module": "local/app.wasm", "args": ["-v"]}"#).unwrap().handle.unwrap();
        assert_eq!((handle.version, &*handle.workload_id), (1, "workload"));
    }

    #[test]
    fn what_the_node_refuses_is_the_starts_error() {
        test::host(|_, _| Err(Error::recoverable(ErrorCode::NOT_FOUND, "no such file")));
        assert_eq!(start(r#"{"module": "gone"}"#).unwrap_err(), Error::recoverable(ErrorCode::NOT_FOUND, "no such file"));
        assert_eq!(start("{}").unwrap_err().message, "config: module is missing");
    }
}
