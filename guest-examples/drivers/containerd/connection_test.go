package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2/hpack"

	"github.com/wasmnode/wasmnode/abi"
)

// framed is a message as gRPC has it in a body.
func framed(message string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// server speaks HTTP/2 by Go's own library, and answers as gRPC does.
func server(t *testing.T) *connection {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "grpc-status, grpc-message")
		w.Header().Set("Content-Type", "application/grpc")
		status, message := "0", ""
		switch r.URL.Path {
		case "/echo":
			_, _ = w.Write(body)
		case "/namespace":
			_, _ = w.Write(framed(r.Header.Get("containerd-namespace")))
		case "/many":
			for range 1000 {
				_, _ = w.Write(framed("one"))
			}
		case "/missing":
			status, message = "5", "no%20such%20thing: %e2%82%ac 5%"
		case "/busy":
			status = "8"
		case "/odd":
			status = "x"
		case "/packed":
			_, _ = w.Write([]byte{1, 0, 0, 0, 0})
		case "/huge":
			_, _ = w.Write([]byte{0, 1, 0, 0, 0})
		case "/never":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			w.Header().Del("Trailer")
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("grpc-status", status)
		w.Header().Set("grpc-message", message)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		s.Close()
	})
	c := newConnection(conn, []hpack.HeaderField{{Name: "containerd-namespace", Value: "mine"}})
	require.NoError(t, c.greet())
	return c
}

// called is what a call is answered with.
func called(c *connection, method, request string, longest time.Duration) (answer []string, err error) {
	err = c.call(method, []byte(request), longest, func(m []byte) error {
		answer = append(answer, string(m))
		return nil
	})
	return answer, err
}

func TestCallsAreAnsweredOneAfterTheOther(t *testing.T) {
	c := server(t)
	for _, size := range []int{0, 1, 16 << 10, 65530, 65531, 1 << 20, maxMessage} {
		want := strings.Repeat("x", size)
		got, err := called(c, "/echo", want, time.Minute)
		require.NoError(t, err)
		require.True(t, len(got) == 1 && got[0] == want, "%d bytes", size)
	}
	got, err := called(c, "/namespace", "", time.Minute)
	require.NoError(t, err)
	require.Equal(t, []string{"mine"}, got)
	got, err = called(c, "/many", "", 0)
	require.NoError(t, err)
	require.Len(t, got, 1000)
	for method, want := range map[string]struct {
		code  abi.Code
		again bool
		says  string
	}{
		"/missing": {abi.NotFound, false, "no such thing: € 5%"},
		"/busy":    {abi.ResourceExhausted, true, ""},
		"/odd":     {abi.Unavailable, true, ""},
		"/other":   {abi.Internal, false, `the socket is not containerd's: it answers with the status "404"`},
	} {
		_, err := called(c, method, "x", time.Minute)
		require.Equal(t, want.code, abi.CodeOf(err), method)
		require.Equal(t, want.again, abi.IsRecoverable(err), method)
		require.Equal(t, want.says, err.Error(), method)
	}
}

func TestAnAnswerThatIsNoneIsLost(t *testing.T) {
	for method, c := range map[string]struct {
		longest time.Duration
		says    string
	}{
		"/packed": {time.Minute, "a message is compressed"},
		"/huge":   {time.Minute, "a message is larger than 4 MiB"},
		"/never":  {20 * time.Millisecond, "containerd does not answer"},
	} {
		_, err := called(server(t), method, "", c.longest)
		require.ErrorContains(t, err, c.says)
		require.True(t, abi.IsRecoverable(err))
	}
}

// recorded is a connection on which those bytes come, and nothing more.
type recorded struct {
	net.Conn
	io.Reader
}

func (r recorded) Read(b []byte) (int, error) { return r.Reader.Read(b) }
func (recorded) Write(b []byte) (int, error)  { return len(b), nil }
func (recorded) SetDeadline(time.Time) error  { return nil }

// FuzzConnection has a server say anything: a call ends.
func FuzzConnection(f *testing.F) {
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add([]byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 5, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 1, 1, 8, 0, 0, 0, 1, 9, 0, 0, 1, 0, 9, 0, 0, 0, 1, 5})
	f.Fuzz(func(t *testing.T, said []byte) {
		c := newConnection(recorded{Reader: bytes.NewReader(said)}, nil)
		if _, err := called(c, "/x", "request", time.Minute); err == nil && len(said) < 9 {
			t.Fatal("an answer without a frame")
		}
		_ = fields(said).wellFormed()
		_ = fields(said).get(1, 2).texted(3)
		_ = fields(said).number(1, 1)
	})
}
