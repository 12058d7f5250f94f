import { device_configure, device_fingerprint, device_reserve } from "./main";
import {
  DeviceConfigureRequest,
  DeviceConfigureResponse,
  DeviceFingerprintRequest,
  DeviceFingerprintResponse,
  DeviceGroupId,
  DeviceReserveRequest,
  DeviceReserveResponse,
  Error,
  ErrorCode,
  utf8,
} from "./sdk";
import { accepted, refused, run, same } from "./sdk/test";

function configure(config: string): Error | null {
  const request = new DeviceConfigureRequest();
  request.config = utf8(config);
  return run<DeviceConfigureRequest, DeviceConfigureResponse>(device_configure, request, new DeviceConfigureResponse());
}

function fingerprint(): DeviceFingerprintResponse {
  const response = new DeviceFingerprintResponse();
  accepted(run<DeviceFingerprintRequest, DeviceFingerprintResponse>(device_fingerprint, new DeviceFingerprintRequest(), response));
  return response;
}

function reserve(name: string, ids: string[], response: DeviceReserveResponse): Error | null {
  const group = new DeviceGroupId();
  group.vendor = "example";
  group.type = "@NAME@";
  group.name = name;
  const request = new DeviceReserveRequest();
  request.group = group;
  request.device_ids = ids;
  return run<DeviceReserveRequest, DeviceReserveResponse>(device_reserve, request, response);
}

export function test_the_devices_are_those_of_the_configuration(): void {
  accepted(configure(""));
  assert(fingerprint().groups.length == 0);
  refused(configure("{"), ErrorCode.INVALID_ARGUMENT, "config: it is no JSON");

  accepted(configure('{"devices": ["one", "two"]}'));
  const found = fingerprint().groups[0].devices;
  assert(found.length == 2 && found[0].healthy);
  same(found[0].id + " " + found[1].id, "one two");
}

export function test_a_task_is_told_its_devices(): void {
  accepted(configure('{"devices": ["one", "two"]}'));
  const response = new DeviceReserveResponse();
  accepted(reserve("virtual", ["one", "two"], response));
  same(response.container_edits!.env.join(" "), "DEVICE_IDS=one,two");
  refused(reserve("virtual", ["three"], response), ErrorCode.NOT_FOUND, "device three is gone");
  refused(reserve("real", ["one"], response), ErrorCode.NOT_FOUND, "there is no such group of devices");
}
