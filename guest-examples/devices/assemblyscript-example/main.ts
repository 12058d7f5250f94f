/**
 * The device plugin "assemblyscript_example": the files in a directory are devices, for learning
 * and for tests. An empty file is a device that is unhealthy. AssemblyScript with the SDK and
 * nothing else.
 */

import * as wasmnode from "../../../sdk/assemblyscript";
import {
  Attribute,
  ContainerEdits,
  Device,
  DeviceConfigureRequest,
  DeviceConfigureResponse,
  DeviceDescribeRequest,
  DeviceDescribeResponse,
  DeviceFingerprintRequest,
  DeviceFingerprintResponse,
  DeviceGroup,
  DeviceGroupId,
  DeviceGroupStats,
  DeviceReserveRequest,
  DeviceReserveResponse,
  DeviceStat,
  DeviceStats,
  DeviceStatsRequest,
  DeviceStatsResponse,
  EditedMount,
  Error,
  ErrorCode,
  Json,
  StatValue,
  fail,
} from "../../../sdk/assemblyscript";
import { About, read_dir, stat } from "../../../sdk/assemblyscript/files";

export function device_describe(length: u32): u32 {
  return wasmnode.device_describe(length, describe);
}

export function device_configure(length: u32): u32 {
  return wasmnode.device_configure(length, configure);
}

export function device_fingerprint(length: u32): u32 {
  return wasmnode.device_fingerprint(length, fingerprint);
}

export function device_reserve(length: u32): u32 {
  return wasmnode.device_reserve(length, reserve);
}

export function device_stats(length: u32): u32 {
  return wasmnode.device_stats(length, stats);
}

const PLUGIN_SCHEMA = `{
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
}`;

/** The directory of the configuration, which each instance gets before anything else. */
let dir = "";

function group(): DeviceGroupId {
  const id = new DeviceGroupId();
  id.vendor = "nomad";
  id.type = "file";
  id.name = "assemblyscript_example";
  return id;
}

class File {
  constructor(
    public name: string,
    public about: About,
  ) {}
}

/** The regular files in the directory, by name. */
class Files {
  files: File[] = [];
  error: Error | null = null;

  constructor() {
    const found = read_dir(dir);
    if (found.error) {
      this.error = fail(ErrorCode.UNAVAILABLE, found.error!.message + ": is the directory granted to this plugin?");
    }
    for (let i = 0; i < found.names.length; i++) {
      const about = stat(dir + "/" + found.names[i]);
      if (!about.error && about.regular) this.files.push(new File(found.names[i], about));
    }
  }
}

function describe(_: DeviceDescribeRequest, response: DeviceDescribeResponse): Error | null {
  response.name = "assemblyscript_example";
  response.version = "0.1.0";
  response.plugin_config_schema = PLUGIN_SCHEMA;
  return null;
}

function configure(request: DeviceConfigureRequest, _: DeviceConfigureResponse): Error | null {
  const config = Json.parse(request.config);
  if (!config) return fail(ErrorCode.INVALID_ARGUMENT, "config: it is no JSON");
  if (config.get("dir").text() == "") return fail(ErrorCode.INVALID_ARGUMENT, "config: dir is missing");
  dir = config.get("dir").text();
  return null;
}

function fingerprint(_: DeviceFingerprintRequest, response: DeviceFingerprintResponse): Error | null {
  response.next_poll_ms = 1000;
  const found = new Files();
  if (found.error || found.files.length == 0) return found.error;
  const all = new DeviceGroup();
  all.id = group();
  const attribute = new Attribute();
  attribute.value_case = 1;
  attribute.string_value = dir;
  all.attributes.set("dir", attribute);
  for (let i = 0; i < found.files.length; i++) {
    const device = new Device();
    device.id = found.files[i].name;
    device.healthy = found.files[i].about.size > 0;
    if (!device.healthy) device.health_description = "the file is empty";
    all.devices.push(device);
  }
  response.groups.push(all);
  return null;
}

function reserve(request: DeviceReserveRequest, response: DeviceReserveResponse): Error | null {
  const edits = new ContainerEdits();
  edits.env.push("EXAMPLE_DEVICES=" + request.device_ids.join(","));
  for (let i = 0; i < request.device_ids.length; i++) {
    const mount = new EditedMount();
    mount.host_path = dir + "/" + request.device_ids[i];
    mount.container_path = "/devices/" + request.device_ids[i];
    if (stat(mount.host_path).error) return fail(ErrorCode.NOT_FOUND, `device ${request.device_ids[i]} is gone`);
    edits.mounts.push(mount);
  }
  response.container_edits = edits;
  return null;
}

function figure(value: u64, unit: string, description: string): StatValue {
  const made = new StatValue();
  made.value_case = 2;
  made.int_value = <i64>value;
  made.unit = unit;
  made.description = description;
  return made;
}

function at(name: string, value: StatValue): DeviceStat {
  const made = new DeviceStat();
  made.path = ["file", name];
  made.value = value;
  return made;
}

function stats(_: DeviceStatsRequest, response: DeviceStatsResponse): Error | null {
  const found = new Files();
  if (found.error || found.files.length == 0) return found.error;
  const all = new DeviceGroupStats();
  all.id = group();
  for (let i = 0; i < found.files.length; i++) {
    const about = found.files[i].about;
    const size = figure(about.size, "B", "Size of the file");
    const figures = new DeviceStats();
    figures.summary = size;
    figures.stats = [at("size", size), at("modified", figure(about.modified_ns / 1_000_000_000, "s", ""))];
    all.devices.set(found.files[i].name, figures);
  }
  response.groups.push(all);
  return null;
}
