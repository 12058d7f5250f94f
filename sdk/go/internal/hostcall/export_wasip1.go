package hostcall

import "github.com/wasmnode/wasmnode/abi"

// Export is what every exported operation does: fetch the input, have it handled, hand
// over the answer or the error, and return the status for the node. Go drops the
// buffers; no memory is shared with the host.
func Export(inputLen uint32, handle func(input []byte) ([]byte, error)) uint32 {
	answer, err := handle(Input(inputLen))
	if err != nil {
		return fail(err)
	}
	Output(answer)
	return 0
}

func fail(err error) uint32 {
	message := abi.Proto(err)
	if message.Code == 0 {
		message.Code = abi.Unknown
	}
	// Encoding fails for no value of this type.
	encoded, _ := message.MarshalVT()
	Output(encoded)
	return uint32(message.Code)
}
