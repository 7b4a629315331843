package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// diary is what is written to the standard output, a line for each thing.
type diary struct{ lock sync.Mutex }

type entry map[string]any

func (d *diary) write(e entry) {
	d.lock.Lock()
	defer d.lock.Unlock()
	// If nobody reads it any more, there is nobody to tell.
	_ = json.NewEncoder(os.Stdout).Encode(e)
}

// words is a message that is written as JSON.
type words struct{ proto.Message }

func (w words) MarshalJSON() ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(w.Message)
}

func allWords[M proto.Message](messages []M) []words {
	list := []words{}
	for _, message := range messages {
		list = append(list, words{message})
	}
	return list
}

// The adaptation writes its log into the diary, but for details.

func (d *diary) Debugf(context.Context, string, ...any) {}

func (d *diary) Infof(_ context.Context, format string, args ...any) {
	d.write(entry{"log": fmt.Sprintf(format, args...)})
}

func (d *diary) Warnf(ctx context.Context, format string, args ...any) {
	d.Infof(ctx, format, args...)
}

func (d *diary) Errorf(ctx context.Context, format string, args ...any) {
	d.Infof(ctx, format, args...)
}
