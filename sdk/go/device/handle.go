package device

import (
	"context"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// Handle performs one operation of p, by its export's name, from encoded request to
// encoded answer: all that an export does but for moving the bytes. It is what
// emulators of the host call, such as drivertest; a plugin has no use for it.
//
// # Errors
//
// The plugin's own; INVALID_ARGUMENT for a request that cannot be decoded or names no
// device or user; UNIMPLEMENTED for an optional operation that p does not implement
// and for names that no device plugin has; INTERNAL when p answers nil without an
// error.
func Handle(ctx context.Context, p Plugin, operation string, request []byte) ([]byte, error) {
	switch operation {
	case abi.OpDeviceDescribe:
		return describe(p, request)
	case abi.OpDeviceConfigure:
		return configure(ctx, p, request)
	case abi.OpDeviceFingerprint:
		return fingerprint(ctx, p, request)
	case abi.OpDeviceReserve:
		return reserve(ctx, p, request)
	case abi.OpDeviceRelease:
		return release(ctx, p, request)
	case abi.OpDeviceStats:
		return stats(ctx, p, request)
	default:
		return nil, abi.NewError(abi.Unimplemented, "no device operation "+operation)
	}
}

// The operations call the generated codecs directly and never through an interface:
// a method that is called through one is linked for every message there is.

func describe(p Plugin, request []byte) ([]byte, error) {
	var r wasmnodev1.DeviceDescribeRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	description := p.Describe()
	if description == nil {
		return nil, nilAnswer("Describe")
	}
	return description.MarshalVT()
}

func configure(ctx context.Context, p Plugin, request []byte) ([]byte, error) {
	var r wasmnodev1.DeviceConfigureRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if err := p.Configure(ctx, r.Config); err != nil {
		return nil, err
	}
	return (&wasmnodev1.DeviceConfigureResponse{}).MarshalVT()
}

func fingerprint(ctx context.Context, p Plugin, request []byte) ([]byte, error) {
	var r wasmnodev1.DeviceFingerprintRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	f, err := p.Fingerprint(ctx)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, nilAnswer("Fingerprint")
	}
	return f.MarshalVT()
}

func reserve(ctx context.Context, p Plugin, request []byte) ([]byte, error) {
	var r wasmnodev1.DeviceReserveRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	reservation, err := reservationOf(r.Group, r.DeviceIds, r.User)
	if err != nil {
		return nil, err
	}
	edits, err := p.Reserve(ctx, reservation)
	if err != nil {
		return nil, err
	}
	if edits == nil {
		return nil, nilAnswer("Reserve")
	}
	return (&wasmnodev1.DeviceReserveResponse{ContainerEdits: edits}).MarshalVT()
}

func release(ctx context.Context, p Plugin, request []byte) ([]byte, error) {
	x, ok := p.(Releaser)
	if !ok {
		return nil, unimplemented("Release")
	}
	var r wasmnodev1.DeviceReleaseRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	reservation, err := reservationOf(r.Group, r.DeviceIds, r.User)
	if err != nil {
		return nil, err
	}
	if err := x.Release(ctx, reservation); err != nil {
		return nil, err
	}
	return (&wasmnodev1.DeviceReleaseResponse{}).MarshalVT()
}

func stats(ctx context.Context, p Plugin, request []byte) ([]byte, error) {
	x, ok := p.(Statser)
	if !ok {
		return nil, unimplemented("Stats")
	}
	var r wasmnodev1.DeviceStatsRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	s, err := x.Stats(ctx)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, nilAnswer("Stats")
	}
	return s.MarshalVT()
}

// reservationOf checks what a plugin's author is promised.
func reservationOf(group *GroupID, ids []string, user *User) (*Reservation, error) {
	switch {
	case group == nil:
		return nil, missing("group")
	case len(ids) == 0:
		return nil, missing("device_ids")
	case user == nil:
		return nil, missing("user")
	}
	return &Reservation{Group: group, DeviceIDs: ids, User: user}, nil
}

func unimplemented(method string) error {
	return abi.NewError(abi.Unimplemented, "the device plugin has no "+method)
}

func nilAnswer(method string) error {
	return abi.NewError(abi.Internal, "the device plugin's "+method+" returned neither an answer nor an error")
}

func missing(field string) error {
	return abi.NewError(abi.InvalidArgument, "request: "+field+" is missing")
}

func undecodable(err error) error {
	return abi.NewError(abi.InvalidArgument, "decode request: "+err.Error())
}
