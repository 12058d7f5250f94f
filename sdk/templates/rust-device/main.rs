//! The device plugin "@NAME@": the devices are those that its configuration names, and a task is
//! told which it has. Real ones would be looked for in `fingerprint`, and given to the task by
//! mounts and device nodes of its edits.

use std::sync::Mutex;
use wasmnode::json::Json;
use wasmnode::*;

wasmnode::export! {
    device_describe = describe,
    device_configure = configure,
    device_fingerprint = fingerprint,
    device_reserve = reserve,
}

/// The configuration, which each instance gets before anything else. Nothing else may live in
/// memory: the node throws an instance away whenever it likes.
static DEVICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn devices() -> Vec<String> {
    DEVICES.lock().unwrap().clone()
}

fn group() -> DeviceGroupId {
    DeviceGroupId { vendor: "example".into(), r#type: "@NAME@".into(), name: "virtual".into() }
}

/// Says who the plugin is, and what its configuration may hold.
fn describe(_: DeviceDescribeRequest) -> Result<DeviceDescribeResponse, Error> {
    Ok(DeviceDescribeResponse {
        name: "@NAME@".into(),
        version: "0.1.0".into(),
        plugin_config_schema: include_str!("plugin_schema.json").into(),
        ..Default::default()
    })
}

/// Takes the plugin's configuration. It was checked against the schema, and has its defaults.
fn configure(request: DeviceConfigureRequest) -> Result<DeviceConfigureResponse, Error> {
    let text = if request.config.is_empty() { b"{}".to_vec() } else { request.config };
    *DEVICES.lock().unwrap() = Json::parse(&text)?.get("devices").texts();
    Ok(DeviceConfigureResponse {})
}

/// Returns all devices that there are now.
fn fingerprint(_: DeviceFingerprintRequest) -> Result<DeviceFingerprintResponse, Error> {
    let devices: Vec<Device> = devices().into_iter().map(|id| Device { id, healthy: true, ..Default::default() }).collect();
    if devices.is_empty() {
        return Ok(DeviceFingerprintResponse::default());
    }
    let found = DeviceGroup { id: Some(group()), devices, ..Default::default() };
    Ok(DeviceFingerprintResponse { groups: vec![found], ..Default::default() })
}

/// Prepares devices for a task, and answers the same when it is asked again. What it does here
/// needs no `device_release`.
fn reserve(request: DeviceReserveRequest) -> Result<DeviceReserveResponse, Error> {
    if request.group != Some(group()) {
        return Err(Error::new(ErrorCode::NOT_FOUND, "there is no such group of devices"));
    }
    let there = devices();
    if let Some(gone) = request.device_ids.iter().find(|&id| !there.contains(id)) {
        return Err(Error::new(ErrorCode::NOT_FOUND, format!("device {gone} is gone")));
    }
    let env = vec![format!("DEVICE_IDS={}", request.device_ids.join(","))];
    Ok(DeviceReserveResponse { container_edits: Some(ContainerEdits { env, ..Default::default() }) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(group: DeviceGroupId, ids: &[&str]) -> Result<DeviceReserveResponse, Error> {
        let device_ids = ids.iter().map(|&id| id.into()).collect();
        reserve(DeviceReserveRequest { group: Some(group), device_ids, ..Default::default() })
    }

    // In one test, since the configuration is one for all.
    #[test]
    fn a_task_is_told_its_devices_of_those_of_the_configuration() {
        let configured = |config: &str| configure(DeviceConfigureRequest { config: config.into() });
        configured("").unwrap();
        assert!(fingerprint(DeviceFingerprintRequest {}).unwrap().groups.is_empty());
        assert!(configured("{").is_err());

        configured(r#"{"devices": ["one", "two"]}"#).unwrap();
        let found = fingerprint(DeviceFingerprintRequest {}).unwrap();
        let ids: Vec<&str> = found.groups[0].devices.iter().map(|d| &*d.id).collect();
        assert_eq!(ids, ["one", "two"]);

        let edits = reserved(group(), &["one", "two"]).unwrap().container_edits.unwrap();
        assert_eq!(edits.env, ["DEVICE_IDS=one,two"]);
        assert_eq!(reserved(group(), &["three"]).unwrap_err().code, ErrorCode::NOT_FOUND);
        assert_eq!(reserved(DeviceGroupId::default(), &["one"]).unwrap_err().code, ErrorCode::NOT_FOUND);
    }
}
