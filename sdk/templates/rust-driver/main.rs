//! The driver plugin "@NAME@": a task is a script that the shell of the node runs. The node owns
//! the process; the driver only decides what to run.
//!
//! Nothing may live in memory: the node throws an instance away whenever it likes. What a task
//! needs goes into its handle.

use wasmnode::json::Json;
use wasmnode::*;

// What is not here the node does with the process that the handle names: it waits for it, stops,
// signals, inspects, measures and destroys it, and runs commands beside it. There is an
// operation for each of these, for tasks that need something else.
wasmnode::export! {
    driver_describe = describe,
    driver_configure = configure,
    driver_fingerprint = fingerprint,
    driver_start_task = start_task,
    driver_recover_task = recover_task,
}

const VERSION: &str = "0.1.0";
const SHELL: &str = "/bin/sh";

/// Grows when newer versions of the driver write other handles.
const HANDLE_VERSION: u32 = 1;

/// Says who the driver is, and what a task's config block may hold.
fn describe(_: DriverDescribeRequest) -> Result<DriverDescribeResponse, Error> {
    let capabilities = DriverCapabilities {
        send_signals: true,
        exec: true,
        filesystem_isolation: FilesystemIsolation::NONE,
        ..Default::default()
    };
    Ok(DriverDescribeResponse {
        name: "@NAME@".into(),
        version: VERSION.into(),
        capabilities: Some(capabilities),
        task_config_schema: include_str!("task_schema.json").into(),
        ..Default::default()
    })
}

/// Takes the plugin's own configuration; this one has none.
fn configure(_: DriverConfigureRequest) -> Result<DriverConfigureResponse, Error> {
    Ok(DriverConfigureResponse {})
}

/// Says whether the driver can work here.
fn fingerprint(_: DriverFingerprintRequest) -> Result<DriverFingerprintResponse, Error> {
    Ok(DriverFingerprintResponse { health: HealthState::HEALTHY, description: "Healthy".into(), ..Default::default() })
}

/// Starts a task. Its config was checked against the schema, and has its defaults.
fn start_task(request: DriverStartTaskRequest) -> Result<DriverStartTaskResponse, Error> {
    let task = request.task.ok_or_else(|| Error::new(ErrorCode::INVALID_ARGUMENT, "there is no task"))?;
    let config = Json::parse(&task.driver_config)?;
    let script = config.get("script").text();
    if script.is_empty() {
        return Err(Error::new(ErrorCode::INVALID_ARGUMENT, "config: script is missing"));
    }
    let mut args = vec!["-c".into(), script.into(), task.name];
    args.extend(config.get("args").texts());
    let started = process_start(&ProcessStartRequest {
        command: SHELL.into(),
        args,
        env: task.env,
        user: task.user,
        isolation: ProcessIsolation::NONE,
        ..Default::default()
    })?;
    let handle = TaskHandle { version: HANDLE_VERSION, workload_id: started.workload_id, ..Default::default() };
    Ok(DriverStartTaskResponse { handle: Some(handle), ..Default::default() })
}

/// Takes a task over after a restart of the agent, or an upgrade of the plugin. The node has made
/// sure that its process is there.
fn recover_task(request: DriverRecoverTaskRequest) -> Result<DriverRecoverTaskResponse, Error> {
    let handle = request.handle.ok_or_else(|| Error::new(ErrorCode::INVALID_ARGUMENT, "there is no handle"))?;
    if handle.version > HANDLE_VERSION {
        return Err(Error::new(ErrorCode::FAILED_PRECONDITION, "a newer version of the driver started this task"));
    }
    Ok(DriverRecoverTaskResponse::default()) // the handle stays as it is
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(config: &str) -> Result<DriverStartTaskResponse, Error> {
        let task = TaskConfig { name: "task".into(), driver_config: config.into(), ..Default::default() };
        start_task(DriverStartTaskRequest { task: Some(task) })
    }

    #[test]
    fn a_task_is_its_script() {
        test::host(|capability, request| {
            assert_eq!(capability, "process_start");
            let process: ProcessStartRequest = wire::decode(request).unwrap();
            assert_eq!(process.command, SHELL);
            assert_eq!(process.args, ["-c", "echo $1", "task", "hi"]);
            test::answer(&ProcessStartResponse { workload_id: "workload".into() })
        });
        let handle = start(r#"{"script": "echo $1", "args": ["hi"]}"#).unwrap().handle.unwrap();
        assert_eq!((handle.version, &*handle.workload_id), (HANDLE_VERSION, "workload"));
    }

    #[test]
    fn what_the_node_refuses_is_the_starts_error() {
        test::host(|_, _| Err(Error::new(ErrorCode::PERMISSION_DENIED, "not granted")));
        assert_eq!(start(r#"{"script": "true"}"#).unwrap_err().code, ErrorCode::PERMISSION_DENIED);
        assert_eq!(start("{}").unwrap_err().message, "config: script is missing");
    }

    #[test]
    fn a_handle_of_a_newer_version_is_refused() {
        let recover = |version| {
            let handle = TaskHandle { version, ..Default::default() };
            recover_task(DriverRecoverTaskRequest { handle: Some(handle), ..Default::default() })
        };
        assert!(recover(HANDLE_VERSION).is_ok());
        assert_eq!(recover(HANDLE_VERSION + 1).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    }
}
