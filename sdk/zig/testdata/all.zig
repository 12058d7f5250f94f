//! A plugin that has all capabilities, so that all of them are compiled.

const std = @import("std");
const wasmnode = @import("wasmnode");

pub const panic = wasmnode.panic;
pub const std_options = wasmnode.std_options;

comptime {
    wasmnode.plugin(@This());
}

var function: *const anyopaque = undefined;

pub fn driverDescribe(_: std.mem.Allocator, _: wasmnode.DriverDescribeRequest) !wasmnode.DriverDescribeResponse {
    @setEvalBranchQuota(10_000);
    const kept: *volatile *const anyopaque = &function; // the compiler cannot know that nobody calls it
    inline for (comptime std.meta.declarations(wasmnode)) |declared| {
        if (comptime std.mem.eql(u8, declared.name, "openDir")) continue; // it is of WASI, which this is built without
        switch (@typeInfo(@TypeOf(@field(wasmnode, declared.name)))) {
            .@"fn" => |f| if (!f.is_generic) {
                kept.* = @ptrCast(&@field(wasmnode, declared.name));
            },
            else => {},
        }
    }
    return .{ .name = "all", .version = "0.1.0" };
}
