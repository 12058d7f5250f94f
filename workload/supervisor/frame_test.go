package supervisor

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload"
)

func TestFramesComeAsTheyWereSent(t *testing.T) {
	var wire bytes.Buffer
	w := &frameWriter{w: &wire}
	big := strings.Repeat("x", 2*maxFrame+1)
	require.NoError(t, w.write(frameStdinEnd, nil))
	_, err := io.WriteString(w.stream(frameStdout), big)
	require.NoError(t, err)
	require.NoError(t, w.writeJSON(frameSize, workload.Size{Rows: 1, Columns: 2}))
	r := newFrameReader(&wire)
	for _, want := range []struct {
		kind    byte
		payload string
	}{
		{frameStdinEnd, ""}, {frameStdout, big[:maxFrame]}, {frameStdout, big[:maxFrame]}, {frameStdout, "x"}, {frameSize, `{"Rows":1,"Columns":2}`},
	} {
		kind, payload, err := r.next()
		require.NoError(t, err)
		require.Equal(t, want.kind, kind)
		require.True(t, want.payload == string(payload))
	}
	_, _, err = r.next()
	require.ErrorIs(t, err, io.EOF)
}

func TestAFrameThatIsTooLargeIsRefused(t *testing.T) {
	_, _, err := newFrameReader(strings.NewReader("\x0b\x00\x01\x00\x01")).next()
	require.EqualError(t, err, "a frame of 65537 bytes, the limit is 65536")
}

// FuzzFrames: whatever comes over a connection, both ends of it stop in the end, and
// what is read as frames is what was there.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x02hi\x02\x00\x00\x00\x00"))
	f.Add([]byte("\x03\x00\x00\x00\x16{\"Rows\":1,\"Columns\":2}"))
	f.Add([]byte("\x0b\x00\x00\x00\x02hi\x0d\x00\x00\x00\x0e{\"ExitCode\":7}"))
	f.Add([]byte("\x0e\x00\x00\x00\x02{}"))
	f.Add([]byte("\x01\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		var again bytes.Buffer
		r, w := newFrameReader(bytes.NewReader(wire)), &frameWriter{w: &again}
		for {
			kind, payload, err := r.next()
			if err != nil {
				break
			}
			require.LessOrEqual(t, len(payload), maxFrame)
			require.NoError(t, w.write(kind, payload))
		}
		require.True(t, bytes.HasPrefix(wire, again.Bytes()))

		var spec workload.ExecSpec
		in := workload.NewInput()
		in.Give(&spec)
		received := make(chan struct{})
		go func() {
			defer close(received)
			receive(newFrameReader(bytes.NewReader(wire)), in)
		}()
		read, _ := io.ReadAll(spec.Stdin)
		require.LessOrEqual(t, len(read), len(wire))
		in.Close()
		<-received

		var stdout, stderr bytes.Buffer
		exit, err := receiveOutput(bytes.NewReader(wire), &workload.ExecSpec{Stdout: &stdout, Stderr: &stderr})
		require.True(t, err != nil || exit != nil)
		require.LessOrEqual(t, stdout.Len()+stderr.Len(), len(wire))
	})
}
