package state

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/wasmnode/wasmnode/internal/boltfile"
)

// KeySize is that of the key that a store seals with, in bytes.
const KeySize = 32

// seal encrypts what of a task may be secret. It is safe for concurrent use.
type seal struct {
	aead   cipher.AEAD
	nonces []byte // the key that nonces are made with
}

func newSeal(key []byte) (*seal, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("a key to seal with has %d bytes, not %d", len(key), KeySize)
	}
	var keys [2][]byte
	for i, purpose := range []string{"wasmnode client state: texts", "wasmnode client state: nonces"} {
		k, err := hkdf.Expand(sha256.New, key, purpose, KeySize)
		if err != nil {
			return nil, err
		}
		keys[i] = k
	}
	block, err := aes.NewCipher(keys[0])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &seal{aead, keys[1]}, nil
}

// close encrypts a text, and binds it to what it is about. What is the same is sealed to the same, so that
// it is not written again: the nonce is made of what is sealed.
func (s *seal) close(text []byte, about string) []byte {
	mac := hmac.New(sha256.New, s.nonces)
	fmt.Fprintf(mac, "%d %s", len(about), about)
	mac.Write(text)
	nonce := mac.Sum(nil)[:s.aead.NonceSize()]
	return s.aead.Seal(slices.Clip(nonce), nonce, text, []byte(about))
}

var errSealed = errors.New("it was sealed with another key, or about something else")

// open decrypts what close made. The error is [errSealed].
func (s *seal) open(sealed []byte, about string) ([]byte, error) {
	size := s.aead.NonceSize()
	if len(sealed) < size {
		return nil, errSealed
	}
	text, err := s.aead.Open(nil, sealed[:size], sealed[size:], []byte(about))
	if err != nil {
		return nil, errSealed
	}
	return text, nil
}

// storedLocal is a TaskLocal as it is stored: what may be secret is sealed.
type storedLocal struct {
	TaskLocal
	Sealed []byte `json:",omitempty"` // secretPart, as JSON; empty: nothing is sealed
}

// secretPart is what of a task may be secret: what its environment and its driver's configuration are
// made of, and what tells of rendered files.
type secretPart struct {
	Config []byte
	Hooks  map[string]secretHook
}

type secretHook struct{ Data, Env map[string]string }

// sealed is how a task's state is stored under a name.
func (s *seal) sealed(local *TaskLocal, about string) (*storedLocal, error) {
	out := &storedLocal{TaskLocal: *local}
	if s == nil {
		return out, nil
	}
	secret := secretPart{local.Config, make(map[string]secretHook, len(local.Hooks))}
	out.Config, out.Hooks = nil, make(map[string]*HookState, len(local.Hooks))
	for name, h := range local.Hooks {
		if h == nil {
			continue
		}
		secret.Hooks[name] = secretHook{h.Data, h.Env}
		rest := *h
		rest.Data, rest.Env = nil, nil
		out.Hooks[name] = &rest
	}
	text, err := json.Marshal(secret)
	if err != nil {
		return nil, err
	}
	out.Sealed = s.close(text, about)
	return out, nil
}

// opened is what was stored of a task under a name. What cannot be opened is missing, and Lost says so.
func (s *seal) opened(stored *storedLocal, about string) *TaskLocal {
	if stored == nil {
		return nil
	}
	local := &stored.TaskLocal
	if len(stored.Sealed) == 0 {
		return local
	}
	var secret secretPart
	err := errSealed
	if s != nil {
		var text []byte
		if text, err = s.open(stored.Sealed, about); err == nil {
			err = json.Unmarshal(text, &secret)
		}
	}
	if err != nil {
		local.Lost = true
		return local
	}
	local.Config = secret.Config
	for name, h := range secret.Hooks {
		if local.Hooks[name] != nil {
			local.Hooks[name].Data, local.Hooks[name].Env = h.Data, h.Env
		}
	}
	return local
}

// sealOlder seals what an older version has stored in the clear. What cannot be read is left as it is.
func (r *records) sealOlder() error {
	ids, err := r.buckets([]string{bucketAllocations})
	if err != nil {
		return err
	}
	for _, id := range ids {
		tasks, err := r.buckets([]string{bucketAllocations, id, bucketTasks})
		if err != nil {
			return err
		}
		var ops []boltfile.Op
		for _, task := range tasks {
			stored, err := get[storedLocal](r, taskBucket(id, task), keyLocal)
			if err != nil || stored == nil || len(stored.Sealed) > 0 {
				continue // whoever reads it says so
			}
			op, err := r.puttingLocal(id, task, &stored.TaskLocal)
			if err != nil {
				return err
			}
			ops = append(ops, op)
		}
		if len(ops) == 0 {
			continue
		}
		if err := r.write(ops...); err != nil {
			return err
		}
	}
	return nil
}
