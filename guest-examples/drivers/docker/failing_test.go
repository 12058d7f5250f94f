package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
)

// failing is an engine that can start containers but for one request, by its method and path, whose answer is
// of that status and body. A body that ends in "…" ends with the connection.
type failing struct {
	request string
	status  int
	body    string
}

func (f failing) serve(l net.Listener) {
	pulled := false
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method+" "+r.URL.Path == f.request {
			w.WriteHeader(f.status)
			body, cut := strings.CutSuffix(f.body, "…")
			_, _ = io.WriteString(w, body)
			if cut {
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			return
		}
		switch {
		case r.URL.Path == "/images/i:1/json" && !pulled:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"message": "No such image: i:1"}`)
		case r.URL.Path == "/images/create", r.URL.Path == "/images/load":
			pulled = true
		case strings.HasSuffix(r.URL.Path, "/create"):
			_, _ = io.WriteString(w, `{"Id": "c"}`)
		default:
			_, _ = io.WriteString(w, `{"Id": "x", "State": {"Running": true}}`)
		}
	}))
}

const (
	full    = "write /var/lib/docker/x: no space left on device"
	refused = `{"message": "` + full + `"}`
)

func TestAStartSaysInOneLineWhatTheEngineFailsAtAndWhetherTryingAgainHelps(t *testing.T) {
	const find, pull, create, start = "GET /images/i:1/json", "POST /images/create", "POST /containers/create", "POST /containers/c/start"
	for name, c := range map[string]struct {
		failing
		again bool
		says  string
	}{
		"the image cannot be looked for": {failing{find, 500, `{"message": "layer\n  does not exist\n"}`}, true,
			"Failed to find docker image i:1: Error response from daemon: layer does not exist"},
		"the image's description is cut off": {failing{find, 200, `{"Id": "sha2`}, true,
			"Failed to find docker image i:1: the engine's answer to GET /images/i:1/json: json: byte 12: string without an end"},
		"the engine is full as it pulls":         {failing{pull, 500, refused}, true, "Failed to pull `i:1`: Error response from daemon: " + full},
		"the engine becomes full as it pulls":    {failing{pull, 200, `{"status": "x"}` + "\n" + `{"error": "` + full + `"}`}, true, "Failed to pull `i:1`: " + full},
		"the engine is busy as it is to pull":    {failing{pull, 503, ""}, true, "Failed to pull `i:1`: Error response from daemon: status 503"},
		"a proxy knows too many requests":        {failing{pull, 429, "<html>\nslowly\n</html>"}, true, "Failed to pull `i:1`: Error response from daemon: <html> slowly </html>"},
		"the connection ends in a pull":          {failing{pull, 200, `{"status": "x"}` + "\n" + `{"err…`}, true, "Failed to pull `i:1`: the engine's answer to POST /images/create: reading: unexpected EOF"},
		"a pull ends in the middle of a line":    {failing{pull, 200, `{"status": "x"}` + "\n" + `{"err`}, true, "Failed to pull `i:1`: the engine has no such image after the pull"},
		"the engine is full as it creates":       {failing{create, 500, refused}, true, "failed to create container: Error response from daemon: " + full},
		"the engine is stopped as it creates":    {failing{create, 503, `{"message": "the daemon is shutting down"}`}, true, "failed to create container: Error response from daemon: the daemon is shutting down"},
		"creating is answered by half":           {failing{create, 201, `{"Id": "c", "War`}, true, "failed to create container: the engine's answer to POST /containers/create: json: byte 16: string without an end"},
		"the connection ends in creating":        {failing{create, 201, `{"Id": "c", "War…`}, true, "failed to create container: the engine's answer to POST /containers/create: reading: unexpected EOF"},
		"the engine does not take the container": {failing{create, 400, `{"message": "invalid volume specification"}`}, false, "failed to create container: Error response from daemon: invalid volume specification"},
		"the engine has no such request":         {failing{create, 405, "page not\nfound"}, false, "failed to create container: Error response from daemon: page not found"},
		"the engine cannot do it":                {failing{create, 501, ""}, false, "failed to create container: Error response from daemon: status 501"},
		"the engine is full as it starts":        {failing{start, 500, refused}, true, "Failed to start container c: Error response from daemon: " + full},
		"the engine ends as it starts":           {failing{start, 500, `{"mess…`}, true, "Failed to start container c: the engine's answer to POST /containers/c/start: reading: unexpected EOF"},
		"there is no such program": {failing{start, 400, `{"message": "exec: \"x\": executable file not found in $PATH: unknown"}`}, false,
			`Failed to start container c: Error response from daemon: exec: "x": executable file not found in $PATH: unknown`},
		"what was started cannot be described": {failing{"GET /containers/c/json", 500, "oops"}, true, "Error response from daemon: oops"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "")
			go c.serve(n.Listen("/run/docker.sock"))
			_, _, err := n.StartTask(n.Task(`{"image": "i:1"}`))
			require.EqualError(t, err, c.says)
			require.Equal(t, c.again, abi.IsRecoverable(err), "%v", err)
		})
	}
}

func TestALoadSaysWhetherTheArchiveOrTheEngineIsBroken(t *testing.T) {
	for body, c := range map[string]struct {
		again bool
		says  string
	}{
		`{"error": "` + full + `"}`:     {true, full},
		`{"error": "invalid tar\nhe"}`:  {false, "invalid tar he"},
		`{"stream": "x"}` + "\n" + `{…`: {true, "the engine's answer to POST /images/load: reading: unexpected EOF"},
	} {
		n := newNode(t, "")
		go failing{"POST /images/load", 200, body}.serve(n.Listen("/run/docker.sock"))
		task := n.Task(`{"image": "i:1", "load": "i.tar"}`)
		require.NoError(t, os.WriteFile(filepath.Join(task.Directories.Local, "i.tar"), nil, 0o600))
		_, _, err := n.StartTask(task)
		require.EqualError(t, err, "Failed to load image archive i.tar: "+c.says)
		require.Equal(t, c.again, abi.IsRecoverable(err), "%v", err)
	}
}

// What is asked for again is not forgotten when the engine fails at it.
func TestAnImageThatCannotBeRemovedIsRemovedLater(t *testing.T) {
	n := newNode(t, `{"gc": {"image_delay": "0s", "dangling_containers": {"enabled": false}}}`)
	removals := 0
	answering(n.Listen("/run/docker.sock"), func(r *http.Request) (int, string) {
		switch {
		case r.URL.Path == "/version":
			return http.StatusOK, `{"ApiVersion": "1.41"}`
		case r.Method == http.MethodDelete:
			if removals++; removals == 1 {
				return http.StatusInternalServerError, refused
			}
			return http.StatusOK, "[]"
		case r.URL.Path == "/containers/json":
			return http.StatusOK, "[]"
		}
		return http.StatusOK, `{"Id": "x"}`
	})
	_, _, err := n.StartTask(n.Task(`{"image": "i:1"}`))
	require.NoError(t, err)
	for range 3 { // it is unused since the first look, and removed in the second and the third
		_, err := n.Fingerprint()
		require.NoError(t, err)
	}
	require.Equal(t, 2, removals)
	for key := range n.Kept() {
		require.False(t, strings.HasPrefix(key, imageKey), key)
	}
}

func TestANameThatIsTakenIsFreedAsOftenAsTheTaskSays(t *testing.T) {
	for more, attempts := range map[string]int{``: 5, `, "container_exists_attempts": 2`: 2, `, "container_exists_attempts": 0`: 0} {
		n := newNode(t, "")
		task, removed := n.Task(`{"image": "i:1"`+more+`}`), 0
		answering(n.Listen("/run/docker.sock"), func(r *http.Request) (int, string) {
			switch {
			case r.URL.Path == "/containers/create":
				return http.StatusConflict, `{"message": "the name is already in use"}`
			case r.Method == http.MethodDelete:
				removed++
			}
			return http.StatusOK, `{"Id": "old", "Config": {"Labels": {"` + labelAlloc + `": "` + task.AllocId + `"}}}`
		})
		_, _, err := n.StartTask(task)
		require.EqualError(t, err, "failed to create container: Error response from daemon: the name is already in use", more)
		require.Equal(t, attempts, removed, more)
	}
}
