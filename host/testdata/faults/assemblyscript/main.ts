/** A driver that aborts in its fingerprint, below a function of its own. */

import * as wasmnode from "../../../../sdk/assemblyscript";
import {
  DriverConfigureRequest,
  DriverConfigureResponse,
  DriverDescribeRequest,
  DriverDescribeResponse,
  DriverFingerprintRequest,
  DriverFingerprintResponse,
  DriverStartTaskRequest,
  DriverStartTaskResponse,
  Error,
  LogLevel,
  log,
} from "../../../../sdk/assemblyscript";

export function driver_describe(length: u32): u32 {
  return wasmnode.driver_describe(length, (_: DriverDescribeRequest, response: DriverDescribeResponse): Error | null => {
    response.name = "faults_assemblyscript";
    response.version = "0.1.0";
    return null;
  });
}

export function driver_configure(length: u32): u32 {
  return wasmnode.driver_configure(length, (_request: DriverConfigureRequest, _response: DriverConfigureResponse): Error | null => null);
}

export function driver_start_task(length: u32): u32 {
  return wasmnode.driver_start_task(length, (_request: DriverStartTaskRequest, _response: DriverStartTaskResponse): Error | null => null);
}

export function driver_fingerprint(length: u32): u32 {
  return wasmnode.driver_fingerprint(length, (_: DriverFingerprintRequest, response: DriverFingerprintResponse): Error | null => {
    response.description = (readTheMeter([1]) + readTheMeter([])).toString();
    return null;
  });
}

// @ts-ignore: decorator
@noinline
function readTheMeter(values: i32[]): i32 {
  log(LogLevel.INFO, "reading the meter");
  if (values.length == 0) throw new Error("there are no values");
  return values[0];
}
