// Generator lets Go's spec generator apply adjustments: a question as a line of JSON in, its answer as a line of JSON out,
// the adjustment encoded and in base64. There are no resolvers, no injector of CDI devices and no filters.
//
//	{"spec":{…},"adjust":…}
//	    {"spec":{…}}      the spec with the adjustment made
//	    {"error":"…"}     it is refused; after "panic: " it is a crash
//	{"spec":{…}}
//	    {"spec":{…}}      the same, as Go reads and writes it
//	{…,"repeat":N}
//	    the same N times, as one line of figures: see measure.go
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/runtime-tools/generate"
	"github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/protobuf/proto"
)

func main() {
	questions, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	answers.SetEscapeHTML(false)
	for {
		var q question
		err := questions.Decode(&q)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		answer, err := respond(&q)
		if err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(answer); err != nil {
			log.Fatal(err)
		}
	}
}

type question struct {
	Spec   json.RawMessage `json:"spec"`
	Adjust []byte          `json:"adjust"`
	Repeat int             `json:"repeat"`
	Alone  bool            `json:"alone"`
}

type answer struct {
	Spec  json.RawMessage `json:"spec,omitempty"`
	Error string          `json:"error,omitempty"`
}

func respond(q *question) (any, error) {
	adjust := &api.ContainerAdjustment{}
	if err := proto.Unmarshal(q.Adjust, adjust); err != nil {
		return nil, err
	}
	if q.Repeat > 0 {
		return measure(q, adjust)
	}
	written, err := document(q.Spec, adjust)
	if err != nil {
		return &answer{Error: err.Error()}, nil
	}
	return &answer{Spec: written}, nil
}

// document applies an adjustment from text to text, as containerd does with the spec of a new container.
func document(text []byte, adjust *api.ContainerAdjustment) (json.RawMessage, error) {
	spec := &specs.Spec{}
	if err := json.Unmarshal(text, spec); err != nil {
		return nil, err
	}
	if err := apply(spec, adjust); err != nil {
		return nil, err
	}
	return json.Marshal(spec)
}

func apply(spec *specs.Spec, adjust *api.ContainerAdjustment) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return generate.SpecGenerator(newUnderlying(spec)).Adjust(adjust)
}
