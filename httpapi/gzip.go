package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// minGzip is the size in bytes from which on an answer is compressed: less is one packet
// either way.
const minGzip = 1400

var gzipWriters = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a good one
	return w
}}

// encoded is an answer as it is sent.
type encoded struct {
	bytes  []byte
	packed bool
	status int // 0: 200
}

// pack compresses a whole answer where the client takes that and it is worth it. Streams and
// files are sent in other ways, always as they are.
func pack(r *http.Request, b []byte) (*encoded, error) {
	if len(b) < minGzip || !takesGzip(r.Header.Values("Accept-Encoding")) {
		return &encoded{bytes: b}, nil
	}
	var packed bytes.Buffer
	z := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(z)
	z.Reset(&packed)
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return &encoded{bytes: packed.Bytes(), packed: true}, nil
}

// takesGzip reads the headers of what a client takes: by name, or as anything ("*"), and not
// with the weight 0.
func takesGzip(headers []string) bool {
	anything := false
	for _, header := range headers {
		for coding := range strings.SplitSeq(header, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			switch name = strings.ToLower(strings.TrimSpace(name)); name {
			case "gzip", "x-gzip":
				return !weighsNothing(weight)
			case "*":
				anything = !weighsNothing(weight)
			}
		}
	}
	return anything
}

func weighsNothing(weight string) bool {
	value, is := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(weight), " ", ""), "q=")
	q, err := strconv.ParseFloat(value, 64)
	return is && err == nil && q == 0
}
