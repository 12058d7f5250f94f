// Command upgrade opens a file of schema 1 as a program of schema 2 does, which keeps values
// under longer keys, and closes it.
package main

import (
	"log"
	"os"

	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/internal/boltfile"
)

func main() {
	f, err := boltfile.Open(os.Args[2], boltfile.Options{
		Kind: "test file", Schema: 2, SetAside: true, CopyEvery: boltfile.DefaultCopyEvery,
		Upgrades: map[int]boltfile.Upgrade{1: func(tx *bbolt.Tx) error {
			b := boltfile.Bucket(tx, "values")
			v := b.Get([]byte("old"))
			if err := b.Put([]byte("new"), append([]byte("upgraded "), v...)); err != nil {
				return err
			}
			return b.Delete([]byte("old"))
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
}
