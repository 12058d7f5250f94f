//! The device plugin "rust_example": the files in a directory are devices, for learning and for
//! tests. An empty file is a device that is unhealthy. Rust with the crate of the SDK and no
//! other.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use wasmnode::json::Json;
use wasmnode::*;

wasmnode::export! {
    device_describe = describe,
    device_configure = configure,
    device_fingerprint = fingerprint,
    device_reserve = reserve,
    device_stats = stats,
}

const PLUGIN_SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["dir"],
  "properties": {
    "dir": {
      "type": "string",
      "minLength": 1,
      "description": "The directory whose files are the devices. The plugin needs a grant to read it."
    }
  }
}"#;

thread_local! {
    /// The directory of the configuration, which each instance gets before anything else.
    static DIR: RefCell<String> = RefCell::default();
}

fn dir() -> String {
    DIR.with(|dir| dir.borrow().clone())
}

fn group() -> DeviceGroupId {
    DeviceGroupId { vendor: "nomad".into(), r#type: "file".into(), name: "rust_example".into() }
}

struct File {
    name: String,
    about: fs::Metadata,
}

/// The regular files in the directory, by name.
fn files() -> Result<Vec<File>, Error> {
    let dir = dir();
    let refused = |why| Error::new(ErrorCode::UNAVAILABLE, format!("open {dir}: {why}: is the directory granted to this plugin?"));
    let mut files = Vec::new();
    for entry in fs::read_dir(&dir).map_err(refused)?.flatten() {
        match (entry.file_name().into_string(), fs::symlink_metadata(entry.path())) {
            (Ok(name), Ok(about)) if about.is_file() => files.push(File { name, about }),
            _ => {} // it is none, or it is gone by now
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

fn describe(_: DeviceDescribeRequest) -> Result<DeviceDescribeResponse, Error> {
    Ok(DeviceDescribeResponse { name: "rust_example".into(), version: "0.1.0".into(), plugin_config_schema: PLUGIN_SCHEMA.into(), ..Default::default() })
}

fn configure(request: DeviceConfigureRequest) -> Result<DeviceConfigureResponse, Error> {
    let config = Json::parse(&request.config)?;
    let dir = config.get("dir").text();
    if dir.is_empty() {
        return Err(Error::new(ErrorCode::INVALID_ARGUMENT, "config: dir is missing"));
    }
    DIR.with(|kept| *kept.borrow_mut() = dir.into());
    Ok(DeviceConfigureResponse {})
}

fn fingerprint(_: DeviceFingerprintRequest) -> Result<DeviceFingerprintResponse, Error> {
    let device = |f: File| {
        let healthy = f.about.len() > 0;
        let health_description = if healthy { "" } else { "the file is empty" }.into();
        Device { id: f.name, healthy, health_description, ..Default::default() }
    };
    let devices: Vec<_> = files()?.into_iter().map(device).collect();
    let mut response = DeviceFingerprintResponse { next_poll_ms: 1000, ..Default::default() };
    if !devices.is_empty() {
        let of = Attribute { value: Some(AttributeValue::StringValue(dir())), ..Default::default() };
        response.groups.push(DeviceGroup { id: Some(group()), devices, attributes: [("dir".into(), of)].into() });
    }
    Ok(response)
}

fn reserve(request: DeviceReserveRequest) -> Result<DeviceReserveResponse, Error> {
    let mut edits = ContainerEdits { env: vec![format!("EXAMPLE_DEVICES={}", request.device_ids.join(","))], ..Default::default() };
    for id in &request.device_ids {
        let host_path = format!("{}/{id}", dir());
        if !Path::new(&host_path).exists() {
            return Err(Error::new(ErrorCode::NOT_FOUND, format!("device {id} is gone")));
        }
        edits.mounts.push(EditedMount { host_path, container_path: format!("/devices/{id}"), ..Default::default() });
    }
    Ok(DeviceReserveResponse { container_edits: Some(edits) })
}

fn figure(value: i64, unit: &str, description: &str) -> StatValue {
    StatValue { value: Some(StatValueValue::IntValue(value)), unit: unit.into(), description: description.into(), ..Default::default() }
}

fn stats(_: DeviceStatsRequest) -> Result<DeviceStatsResponse, Error> {
    let of = |f: File| {
        let modified = f.about.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let (size, modified) = (figure(f.about.len() as i64, "B", "Size of the file"), figure(modified.as_secs() as i64, "s", ""));
        let stat = |name: &str, value: &StatValue| DeviceStat { path: vec!["file".into(), name.into()], value: Some(value.clone()) };
        let stats = vec![stat("size", &size), stat("modified", &modified)];
        (f.name, DeviceStats { summary: Some(size), stats, ..Default::default() })
    };
    let devices: std::collections::BTreeMap<_, _> = files()?.into_iter().map(of).collect();
    let mut response = DeviceStatsResponse::default();
    if !devices.is_empty() {
        response.groups.push(DeviceGroupStats { id: Some(group()), devices });
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_device() {
        let dir = std::env::temp_dir().join(format!("rust_example-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a"), "123").unwrap();
        fs::write(dir.join("b"), "").unwrap();
        configure(DeviceConfigureRequest { config: format!(r#"{{"dir": "{}"}}"#, dir.display()).into() }).unwrap();
        let found = fingerprint(DeviceFingerprintRequest {}).unwrap().groups.remove(0).devices;
        let edits = reserve(DeviceReserveRequest { device_ids: vec!["a".into()], ..Default::default() }).unwrap().container_edits.unwrap();
        let gone = reserve(DeviceReserveRequest { device_ids: vec!["c".into()], ..Default::default() }).unwrap_err();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found.iter().map(|d| (&*d.id, d.healthy)).collect::<Vec<_>>(), [("a", true), ("b", false)]);
        assert_eq!((&*edits.env[0], &*edits.mounts[0].container_path), ("EXAMPLE_DEVICES=a", "/devices/a"));
        assert_eq!(gone, Error::new(ErrorCode::NOT_FOUND, "device c is gone"));
        assert_eq!(fingerprint(DeviceFingerprintRequest {}).unwrap_err().code, ErrorCode::UNAVAILABLE);
        assert_eq!(configure(DeviceConfigureRequest { config: "{}".into() }).unwrap_err().message, "config: dir is missing");
    }
}
