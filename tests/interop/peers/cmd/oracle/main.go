// Oracle answers questions about texts as the Go module would: a JSON array of strings a line in, a JSON string a
// line out. tests/interop/texts.rs asks them of us too.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/containerd/nri/pkg/api"
	validator "github.com/containerd/nri/plugins/default-validator"
)

func main() {
	questions, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	answers.SetEscapeHTML(false)
	for {
		var question []string
		err := questions.Decode(&question)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(answer(question[0], question[1:])); err != nil {
			log.Fatal(err)
		}
	}
}

func answer(about string, args []string) string {
	var text string
	var err error
	switch about {
	case "mask":
		text, err = mask(args[0])
	case "id":
		text, err = id(args[0])
	case "registration":
		text, err = registration(args[0], args[1])
	case "version":
		text, err = api.InferVersionFromRuntime(args[0], args[1])
	case "quote":
		text = fmt.Sprintf("%q", args[0])
	case "required":
		text, err = required(args[0])
	default:
		log.Fatalf("no such question: %s", about)
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return text
}

func mask(text string) (string, error) {
	events, err := api.ParseEventMask(text)
	return fmt.Sprintf("%d %s", events, events.PrettyString()), err
}

func id(text string) (string, error) {
	index, name, err := api.ParsePluginName(text)
	if err == nil {
		err = api.CheckPluginName(name)
	}
	return index + " " + name, err
}

// required is what the default validator says of a container whose pod requires plugins with such an annotation.
func required(value string) (string, error) {
	pod := &api.PodSandbox{Annotations: map[string]string{validator.RequiredPlugins: value}}
	request := &api.ValidateContainerAdjustmentRequest{Pod: pod, Container: &api.Container{}}
	return "accepted", validator.NewDefaultValidator(&validator.DefaultValidatorConfig{}).
		ValidateContainerAdjustment(context.Background(), request)
}

func registration(index, name string) (string, error) {
	err := api.CheckPluginName(name)
	if err == nil {
		err = api.CheckPluginIndex(index)
	}
	return index + " " + name, err
}
