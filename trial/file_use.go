package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/secrets"
)

// fileModule is what the functions of files are called after in a recording: "wasi/v1 open".
const fileModule = "wasi/v1 "

// fileAsk is what a plugin asks of a file by WASI.
type fileAsk struct {
	function string
	Path     string  `json:"path"`
	To       string  `json:"to,omitempty"`
	Flags    uint32  `json:"flags,omitempty"`
	Mode     uint32  `json:"mode,omitempty"`
	Offset   int64   `json:"offset,omitempty"`
	Whence   int     `json:"whence,omitempty"`
	Size     int64   `json:"size,omitempty"`
	Count    int     `json:"count,omitempty"`
	Atime    int64   `json:"atime,omitempty"`
	Mtime    int64   `json:"mtime,omitempty"`
	Data     payload `json:"data,omitempty"` // data, once it is masked

	room uint32 // of a read
	data []byte // of a write
	file int    // which open file it is about
}

// fileAnswer is what it gets.
type fileAnswer struct {
	Errno   string      `json:"errno,omitempty"` // errno's name
	Stat    *fileStat   `json:"stat,omitempty"`
	Entries []fileEntry `json:"entries,omitempty"`
	Link    string      `json:"link,omitempty"`
	Offset  int64       `json:"offset,omitempty"`
	Count   int         `json:"count,omitempty"`
	Data    payload     `json:"data,omitempty"` // data, once it is masked

	errno experimentalsys.Errno
	data  []byte
}

type fileStat struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Mode  uint32 `json:"mode"`
	Nlink uint64 `json:"nlink"`
	Size  int64  `json:"size"`
	Atime int64  `json:"atime"`
	Mtime int64  `json:"mtime"`
	Ctime int64  `json:"ctime"`
}

type fileEntry struct {
	Name string `json:"name"`
	Ino  uint64 `json:"ino"`
	Type uint32 `json:"type"`
}

func statOf(s sys.Stat_t) *fileStat {
	return &fileStat{s.Dev, s.Ino, uint32(s.Mode), s.Nlink, s.Size, s.Atim, s.Mtim, s.Ctim}
}

// stat is the engine's form; of nil, nothing.
func (s *fileStat) stat() sys.Stat_t {
	if s == nil {
		return sys.Stat_t{}
	}
	return sys.Stat_t{Dev: s.Dev, Ino: s.Ino, Mode: fs.FileMode(s.Mode), Nlink: s.Nlink, Size: s.Size, Atim: s.Atime, Mtim: s.Mtime, Ctim: s.Ctime}
}

func (a *fileAnswer) dirents() (out []experimentalsys.Dirent) {
	for _, e := range a.Entries {
		out = append(out, experimentalsys.Dirent{Name: e.Name, Ino: e.Ino, Type: fs.FileMode(e.Type)})
	}
	return out
}

// bytes is how much of it is kept, about.
func (a *fileAnswer) bytes() int {
	n := len(a.data) + len(a.Link)
	for _, e := range a.Entries {
		n += len(e.Name) + takenOverhead/4
	}
	return n
}

// errnos are the names of errors. One that has none is EIO.
var errnos = map[string]experimentalsys.Errno{
	"EACCES": experimentalsys.EACCES, "EAGAIN": experimentalsys.EAGAIN, "EBADF": experimentalsys.EBADF, "EEXIST": experimentalsys.EEXIST,
	"EFAULT": experimentalsys.EFAULT, "EINTR": experimentalsys.EINTR, "EINVAL": experimentalsys.EINVAL, "EIO": experimentalsys.EIO,
	"EISDIR": experimentalsys.EISDIR, "ELOOP": experimentalsys.ELOOP, "ENAMETOOLONG": experimentalsys.ENAMETOOLONG,
	"ENOENT": experimentalsys.ENOENT, "ENOSYS": experimentalsys.ENOSYS, "ENOTDIR": experimentalsys.ENOTDIR, "ERANGE": experimentalsys.ERANGE,
	"ENOTEMPTY": experimentalsys.ENOTEMPTY, "ENOTSOCK": experimentalsys.ENOTSOCK, "ENOTSUP": experimentalsys.ENOTSUP,
	"EPERM": experimentalsys.EPERM, "EROFS": experimentalsys.EROFS,
}

func errnoName(no experimentalsys.Errno) string {
	for name, known := range errnos {
		if known == no {
			return name
		}
	}
	return "EIO"
}

// failures are how a file fails in the place of a capability.
var failures = map[abi.Code]experimentalsys.Errno{
	abi.Unavailable: experimentalsys.EIO, abi.PermissionDenied: experimentalsys.EACCES, abi.DeadlineExceeded: experimentalsys.EINTR,
}

// isFile reports whether a use is of a file, by WASI.
func isFile(capability string) bool { return strings.HasPrefix(capability, fileModule) }

// askOf is what is recorded of what a plugin asks, masked.
func (k *masker) askOf(ask *fileAsk) asked {
	shown := *ask
	shown.Path, shown.To = k.name(ask.Path), k.name(ask.To)
	if len(ask.data) > 0 {
		text := k.Text(string(ask.data))
		if isSecretFile(ask.Path) {
			text = k.Hide(string(ask.data))
		}
		shown.Data = quote(text)
	}
	text, _ := json.Marshal(shown) // it can be encoded
	return asked{room: ask.room, request: text}
}

// name masks a path.
func (k *masker) name(path string) string { return k.Text(strings.ToValidUTF8(path, "�")) }

// answerOf is what is recorded of an answer, whose data is masked already.
func (k *masker) answerOf(a *fileAnswer, data string) payload {
	shown := *a
	if a.errno != 0 {
		shown = fileAnswer{Errno: errnoName(a.errno)}
	}
	shown.Link = k.name(shown.Link)
	shown.Entries = slices.Clone(shown.Entries)
	for i := range shown.Entries {
		shown.Entries[i].Name = k.name(shown.Entries[i].Name)
	}
	if data != "" {
		shown.Data = quote(data)
	}
	text, _ := json.Marshal(shown) // it can be encoded
	return text
}

// readFileAnswer reads what was recorded. It trusts nothing in it.
func readFileAnswer(p payload) (*fileAnswer, error) {
	a := &fileAnswer{}
	decoder := json.NewDecoder(bytes.NewReader(p))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(a); err != nil {
		return nil, err
	}
	if a.Errno != "" {
		if a.errno = errnos[a.Errno]; a.errno == 0 {
			return nil, fmt.Errorf("errno: %q is none", a.Errno)
		}
	}
	data, err := wire("", given(a.Data))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("data: it has %d bytes, and a use at most %d", len(data), maxFileBytes)
	}
	a.data = data
	return a, err
}

// isSecretFile reports whether what is in a file is a secret, by where it is and what it is called.
func isSecretFile(file string) bool {
	base := path.Base(file)
	return strings.HasPrefix(file, abi.TaskDir+"/secrets/") || secrets.LikeOne(base) && base != "passwd"
}

// contents are what was read of files in a call, masked, by the use: what a file has is looked at
// as one text, in however many pieces it was read.
func (k *masker) contents(uses []takenUse) map[int]string {
	reads := map[int][]int{}
	var order []int
	for i, u := range uses {
		if u.file == nil || len(u.got.data) == 0 {
			continue
		}
		if reads[u.file.file] == nil {
			order = append(order, u.file.file)
		}
		reads[u.file.file] = append(reads[u.file.file], i)
	}
	out := map[int]string{}
	for _, file := range order {
		var all strings.Builder
		for _, i := range reads[file] {
			all.Write(uses[i].got.data)
		}
		text := k.content(uses[reads[file][0]].file.Path, all.String())
		for _, i := range reads[file] {
			n := len(uses[i].got.data)
			out[i], text = text[:n], text[n:]
		}
	}
	return out
}

// maxSecretLines is how many secrets a file has at most that has one in each line.
const maxSecretLines = 64

// content is the text of a file, masked, which is as long.
func (k *masker) content(file, text string) string {
	if strings.Contains(text, "PRIVATE KEY-----") {
		return k.Hide(text)
	}
	if isSecretFile(file) {
		if isObject([]byte(text)) || strings.Count(text, "\n") > maxSecretLines {
			return k.Hide(text)
		}
		return k.lines(text)
	}
	masked := k.Text(string(k.Object([]byte(text))))
	if len(masked) != len(text) { // what is hidden is written in another length
		return k.Hide(text)
	}
	return masked
}

// variable is how a file sets one, in a line.
var variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]*=`)

// lines masks each line of a text, or the value of the variable that it sets.
func (k *masker) lines(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		text := strings.TrimRight(line, "\r\n")
		name := variable.FindString(text)
		if strings.Trim(text[len(name):], "=") == "" {
			name = "" // it is the end of base64
		}
		out.WriteString(name + k.Hide(text[len(name):]) + line[len(text):])
	}
	return out.String()
}
