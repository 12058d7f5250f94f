package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// timed is an answer whose connection's deadlines are kept.
type timed struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (w *timed) SetReadDeadline(t time.Time) error  { w.read = t; return nil }
func (w *timed) SetWriteDeadline(t time.Time) error { w.write = t; return nil }

func TestAPageHasTimeToBeReadAndItsBodyNone(t *testing.T) {
	unasked := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the API was asked") })
	pages := withPages(unasked, Config{})
	for _, path := range []string{"/ui/no-such-page", "/ui"} {
		for _, body := range []string{"", "x"} {
			before, w := time.Now(), &timed{ResponseRecorder: httptest.NewRecorder()}
			pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, strings.NewReader(body)))
			require.WithinRange(t, w.write, before, time.Now().Add(replyTimeout), path)
			if body == "" {
				require.Zero(t, w.read, path)
				require.NotEqual(t, "close", w.Header().Get("Connection"), path)
				continue
			}
			require.WithinRange(t, w.read, before, time.Now().Add(lingerTime), path)
			require.Equal(t, "close", w.Header().Get("Connection"), path)
		}
	}
}
