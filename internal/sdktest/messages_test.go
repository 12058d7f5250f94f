package sdktest

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// message is what Go's codec makes of one.
type message interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// messages are all of the schema: a test compares them with it.
var messages = []message{
	&wasmnodev1.Attribute{}, &wasmnodev1.DeviceDescribeRequest{}, &wasmnodev1.DeviceDescribeResponse{},
	&wasmnodev1.DeviceConfigureRequest{}, &wasmnodev1.DeviceConfigureResponse{}, &wasmnodev1.DeviceFingerprintRequest{},
	&wasmnodev1.DeviceFingerprintResponse{}, &wasmnodev1.DeviceGroupId{}, &wasmnodev1.DeviceGroup{}, &wasmnodev1.Device{},
	&wasmnodev1.DeviceUser{}, &wasmnodev1.DeviceReserveRequest{}, &wasmnodev1.DeviceReserveResponse{},
	&wasmnodev1.ContainerEdits{}, &wasmnodev1.EditedDeviceNode{}, &wasmnodev1.EditedMount{}, &wasmnodev1.EditedHook{},
	&wasmnodev1.DeviceReleaseRequest{}, &wasmnodev1.DeviceReleaseResponse{}, &wasmnodev1.DeviceStatsRequest{},
	&wasmnodev1.DeviceStatsResponse{}, &wasmnodev1.DeviceGroupStats{}, &wasmnodev1.DeviceStats{}, &wasmnodev1.DeviceStat{},
	&wasmnodev1.StatValue{},
	&wasmnodev1.DriverDescribeRequest{}, &wasmnodev1.DriverDescribeResponse{}, &wasmnodev1.DriverCapabilities{},
	&wasmnodev1.DriverConfigureRequest{}, &wasmnodev1.DriverConfigureResponse{}, &wasmnodev1.DriverFingerprintRequest{},
	&wasmnodev1.DriverFingerprintResponse{}, &wasmnodev1.DriverStartTaskRequest{}, &wasmnodev1.DriverStartTaskResponse{},
	&wasmnodev1.DriverRecoverTaskRequest{}, &wasmnodev1.DriverRecoverTaskResponse{}, &wasmnodev1.DriverWaitTaskRequest{},
	&wasmnodev1.DriverWaitTaskResponse{}, &wasmnodev1.DriverStopTaskRequest{}, &wasmnodev1.DriverStopTaskResponse{},
	&wasmnodev1.DriverSignalTaskRequest{}, &wasmnodev1.DriverSignalTaskResponse{}, &wasmnodev1.DriverDestroyTaskRequest{},
	&wasmnodev1.DriverDestroyTaskResponse{}, &wasmnodev1.DriverInspectTaskRequest{}, &wasmnodev1.DriverInspectTaskResponse{},
	&wasmnodev1.DriverTaskStatsRequest{}, &wasmnodev1.DriverTaskStatsResponse{}, &wasmnodev1.DriverExecTaskRequest{},
	&wasmnodev1.TerminalSize{}, &wasmnodev1.DriverExecTaskResponse{},
	&wasmnodev1.DriverCreateNetworkRequest{}, &wasmnodev1.DriverCreateNetworkResponse{}, &wasmnodev1.DriverDestroyNetworkRequest{},
	&wasmnodev1.DriverDestroyNetworkResponse{},
	&wasmnodev1.Error{}, &wasmnodev1.ExecStreams{},
	&wasmnodev1.HttpRequest{}, &wasmnodev1.HttpHeader{}, &wasmnodev1.HttpRequestResponse{}, &wasmnodev1.HttpResponse{},
	&wasmnodev1.HttpTrailers{},
	&wasmnodev1.KvGetRequest{}, &wasmnodev1.KvGetResponse{}, &wasmnodev1.KvSetRequest{}, &wasmnodev1.KvSetResponse{},
	&wasmnodev1.KvDeleteRequest{}, &wasmnodev1.KvDeleteResponse{}, &wasmnodev1.KvListRequest{}, &wasmnodev1.KvListResponse{},
	&wasmnodev1.KvEntry{},
	&wasmnodev1.LogFields{}, &wasmnodev1.LogField{},
	&wasmnodev1.NetDialRequest{}, &wasmnodev1.TlsOptions{}, &wasmnodev1.NetDialResponse{},
	&wasmnodev1.ProcessStartRequest{}, &wasmnodev1.ProcessPath{}, &wasmnodev1.ProcessMount{}, &wasmnodev1.ProcessLimit{}, &wasmnodev1.ProcessStartResponse{},
	&wasmnodev1.ProcessSupportRequest{}, &wasmnodev1.ProcessSupport{}, &wasmnodev1.ProcessRunRequest{}, &wasmnodev1.ProcessRunResponse{},
	&wasmnodev1.StreamPollRequest{}, &wasmnodev1.StreamPollEntry{}, &wasmnodev1.StreamPollResponse{},
	&wasmnodev1.TaskConfig{}, &wasmnodev1.TaskNetwork{}, &wasmnodev1.LogConfig{}, &wasmnodev1.Resources{},
	&wasmnodev1.TaskDirectories{}, &wasmnodev1.Mount{}, &wasmnodev1.DeviceNode{}, &wasmnodev1.Port{}, &wasmnodev1.TaskHandle{},
	&wasmnodev1.DriverNetwork{}, &wasmnodev1.ExitResult{}, &wasmnodev1.TaskStatus{}, &wasmnodev1.TaskStats{}, &wasmnodev1.OutputMark{},
	&wasmnodev1.TaskEvent{},
	&wasmnodev1.WasmStartRequest{}, &wasmnodev1.WasmStartResponse{},
	&wasmnodev1.WorkloadSignalRequest{}, &wasmnodev1.WorkloadSignalResponse{}, &wasmnodev1.WorkloadStopRequest{}, &wasmnodev1.WorkloadStopResponse{},
	&wasmnodev1.WorkloadWaitRequest{}, &wasmnodev1.WorkloadWaitResponse{}, &wasmnodev1.WorkloadStatsRequest{}, &wasmnodev1.WorkloadStatsResponse{},
	&wasmnodev1.WorkloadInspectRequest{}, &wasmnodev1.WorkloadInspectResponse{}, &wasmnodev1.WorkloadExecRequest{}, &wasmnodev1.WorkloadExecResponse{},
}

// choices are the members of the schema's oneofs.
var choices = []any{
	&wasmnodev1.Attribute_StringValue{}, &wasmnodev1.Attribute_BoolValue{}, &wasmnodev1.Attribute_IntValue{},
	&wasmnodev1.Attribute_FloatValue{}, &wasmnodev1.StatValue_FloatValue{}, &wasmnodev1.StatValue_IntValue{},
	&wasmnodev1.StatValue_StringValue{}, &wasmnodev1.StatValue_BoolValue{}, &wasmnodev1.StatValue_FloatDenominator{},
	&wasmnodev1.StatValue_IntDenominator{},
}

func nameOf(m message) string { return reflect.TypeOf(m).Elem().Name() }

func empty(m message) message { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message) }

// random returns a message of m's type that is filled by chance, with maps of at most
// maxMap entries: Go writes those of one map in any order.
func random(m message, r *rand.Rand, maxMap int) message {
	filled := empty(m)
	fill(reflect.ValueOf(filled).Elem(), r, maxMap)
	return filled
}

func fill(v reflect.Value, r *rand.Rand, maxMap int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && r.IntN(4) > 0 {
				fill(v.Field(i), r, maxMap)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r, maxMap)
	case reflect.Interface:
		var fit []any
		for _, c := range choices {
			if reflect.TypeOf(c).Implements(v.Type()) {
				fit = append(fit, c)
			}
		}
		choice := reflect.New(reflect.TypeOf(fit[r.IntN(len(fit))]).Elem())
		fill(choice.Elem(), r, maxMap)
		v.Set(choice)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(text(r)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(v.Index(i), r, maxMap)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(maxMap + 1) {
			value := reflect.New(v.Type().Elem()).Elem()
			fill(value, r, maxMap)
			v.SetMapIndex(reflect.ValueOf(text(r)), value)
		}
	case reflect.String:
		v.SetString(text(r))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Float64:
		if v.SetFloat(math.Float64frombits(number(r))); math.IsNaN(v.Float()) {
			v.SetFloat(-0.5) // nothing is equal to what is no number
		}
	case reflect.Int32:
		v.SetInt(int64(int32(number(r))))
	case reflect.Int64:
		v.SetInt(int64(number(r)))
	case reflect.Uint32:
		v.SetUint(uint64(uint32(number(r))))
	case reflect.Uint64:
		v.SetUint(number(r))
	default:
		panic("no values of " + v.Type().String())
	}
}

func text(r *rand.Rand) string {
	return strings.Repeat([]string{"a", "ü", "\x00", "語"}[r.IntN(4)], []int{0, 1, 5, 127, 128, 300}[r.IntN(6)])
}

// number is of any length: small ones are as likely as large ones.
func number(r *rand.Rand) uint64 {
	n := r.Uint64() >> r.IntN(64)
	if r.IntN(4) == 0 {
		return -n
	}
	return n
}

// forget removes the fields that Go's codec did not know, at any depth.
func forget(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			forget(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "unknownFields" {
				*(*[]byte)(unsafe.Pointer(v.Field(i).UnsafeAddr())) = nil
			} else {
				forget(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			forget(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			forget(v.MapIndex(key))
		}
	}
}

// isText reports whether all strings of a message are UTF-8: in Rust what is not becomes
// U+FFFD, in Go it stays.
func isText(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || isText(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if !isText(v.Field(i)) {
				return false
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if !isText(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if !isText(key) || !isText(v.MapIndex(key)) {
				return false
			}
		}
	case reflect.String:
		return utf8.ValidString(v.String())
	}
	return true
}
