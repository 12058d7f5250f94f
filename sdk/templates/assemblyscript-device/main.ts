/**
 * The device plugin "@NAME@": the devices are those that its configuration names, and a task is
 * told which it has. Real ones would be looked for in fingerprint, and given to the task by
 * mounts and device nodes of its edits.
 */

import { SCHEMA } from "./build/@SCHEMA@";
import * as wasmnode from "./sdk";
import {
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
  DeviceReserveRequest,
  DeviceReserveResponse,
  Error,
  ErrorCode,
  Json,
  fail,
  utf8,
} from "./sdk";

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

/**
 * The configuration, which each instance gets before anything else. Nothing else may live in
 * memory: the node throws an instance away whenever it likes.
 */
let devices: string[] = [];

function group(): DeviceGroupId {
  const id = new DeviceGroupId();
  id.vendor = "example";
  id.type = "@NAME@";
  id.name = "virtual";
  return id;
}

/** Says who the plugin is, and what its configuration may hold. */
function describe(_: DeviceDescribeRequest, response: DeviceDescribeResponse): Error | null {
  response.name = "@NAME@";
  response.version = "0.1.0";
  response.plugin_config_schema = SCHEMA;
  return null;
}

/** Takes the plugin's configuration. It was checked against the schema, and has its defaults. */
function configure(request: DeviceConfigureRequest, _: DeviceConfigureResponse): Error | null {
  const config = Json.parse(request.config.length > 0 ? request.config : utf8("{}"));
  if (!config) return fail(ErrorCode.INVALID_ARGUMENT, "config: it is no JSON");
  devices = config.get("devices").texts();
  return null;
}

/** Returns all devices that there are now. */
function fingerprint(_: DeviceFingerprintRequest, response: DeviceFingerprintResponse): Error | null {
  if (devices.length == 0) return null;
  const found = new DeviceGroup();
  found.id = group();
  for (let i = 0; i < devices.length; i++) {
    const device = new Device();
    device.id = devices[i];
    device.healthy = true;
    found.devices.push(device);
  }
  response.groups.push(found);
  return null;
}

/**
 * Prepares devices for a task, and answers the same when it is asked again. What it does here
 * needs no device_release.
 */
function reserve(request: DeviceReserveRequest, response: DeviceReserveResponse): Error | null {
  const asked = request.group;
  const own = group();
  if (!asked || asked.vendor != own.vendor || asked.type != own.type || asked.name != own.name) {
    return fail(ErrorCode.NOT_FOUND, "there is no such group of devices");
  }
  for (let i = 0; i < request.device_ids.length; i++) {
    const id = request.device_ids[i];
    if (!devices.includes(id)) return fail(ErrorCode.NOT_FOUND, `device ${id} is gone`);
  }
  const edits = new ContainerEdits();
  edits.env.push("DEVICE_IDS=" + request.device_ids.join(","));
  response.container_edits = edits;
  return null;
}
