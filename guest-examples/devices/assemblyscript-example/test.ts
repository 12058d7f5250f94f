/** Tests of the device plugin, without a node. They see the files of testdata at /devices. */

import {
  DeviceConfigureRequest,
  DeviceConfigureResponse,
  DeviceFingerprintRequest,
  DeviceFingerprintResponse,
  DeviceReserveRequest,
  DeviceReserveResponse,
  Error,
  ErrorCode,
  utf8,
} from "../../../sdk/assemblyscript";
import { read_file } from "../../../sdk/assemblyscript/files";
import { accepted, refused, run, same } from "../../../sdk/assemblyscript/test";
import { device_configure, device_fingerprint, device_reserve } from "./main";

function configure(config: string): Error | null {
  const request = new DeviceConfigureRequest();
  request.config = utf8(config);
  return run<DeviceConfigureRequest, DeviceConfigureResponse>(device_configure, request, new DeviceConfigureResponse());
}

function fingerprint(response: DeviceFingerprintResponse): Error | null {
  return run<DeviceFingerprintRequest, DeviceFingerprintResponse>(device_fingerprint, new DeviceFingerprintRequest(), response);
}

function reserve(id: string, response: DeviceReserveResponse): Error | null {
  const request = new DeviceReserveRequest();
  request.device_ids = [id];
  return run<DeviceReserveRequest, DeviceReserveResponse>(device_reserve, request, response);
}

export function test_every_file_is_a_device(): void {
  accepted(configure('{"dir": "/devices"}'));
  const response = new DeviceFingerprintResponse();
  accepted(fingerprint(response));
  const found = response.groups[0].devices;
  assert(found.length == 2 && found[0].healthy && !found[1].healthy);
  same(found[0].id + " " + found[1].id, "a b");
  same(found[1].health_description, "the file is empty");
}

export function test_a_task_gets_the_file_and_its_name(): void {
  accepted(configure('{"dir": "/devices"}'));
  const response = new DeviceReserveResponse();
  accepted(reserve("a", response));
  const edits = response.container_edits!;
  same(edits.env[0], "EXAMPLE_DEVICES=a");
  same(edits.mounts[0].host_path + " " + edits.mounts[0].container_path, "/devices/a /devices/a");
  refused(reserve("c", response), ErrorCode.NOT_FOUND, "device c is gone");
}

export function test_a_directory_that_is_not_there_is_unavailable(): void {
  accepted(configure('{"dir": "/devices/nowhere"}'));
  const why = "open /devices/nowhere: no such file or directory: is the directory granted to this plugin?";
  refused(fingerprint(new DeviceFingerprintResponse()), ErrorCode.UNAVAILABLE, why);
  refused(configure("{}"), ErrorCode.INVALID_ARGUMENT, "config: dir is missing");
}

export function test_a_file_is_read_up_to_a_number_of_bytes(): void {
  const whole = read_file("/devices/a");
  accepted(whole.error);
  same(String.UTF8.decode(whole.bytes.buffer), "123");
  same(String.UTF8.decode(read_file("/devices/a", 2).bytes.buffer), "12");
  assert(read_file("/devices/b").bytes.length == 0);
  refused(read_file("/devices/c").error, ErrorCode.NOT_FOUND, "open /devices/c: no such file or directory");
  refused(read_file("/elsewhere").error, ErrorCode.NOT_FOUND, "open /elsewhere: no such file or directory");
}
