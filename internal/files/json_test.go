package files

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestJSON(t *testing.T) {
	i := Info{Name: "a\nb", Type: File, Size: 5, Mode: 0o644, ModTime: time.Unix(1, 5e8), Links: 1}
	odd := Info{Name: "\xff", Type: Link, Target: "\xfe"}
	for _, c := range []struct {
		v    any
		want string
	}{
		{i, `{"v":1,"name":"a\nb","type":"file","bytes":5,"mode":"0644","modifiedAt":"1970-01-01T00:00:01.500Z","links":1}`},
		{Listing{Entries: []Info{odd}, Cursor: "c"}, `"entries":[{"name":"/w==","nameEncoding":"base64","type":"link"`},
		{Listing{Entries: []Info{odd}, Cursor: "c"}, `"target":"/g==","targetEncoding":"base64"}],"cursor":"c"}`},
		{Listing{}, `{"v":1,"entries":[]}`},
		{Page{Data: []byte("ä\n"), Line: 3, Size: 9}, `{"v":1,"text":"ä\n","textEncoding":"utf-8","line":3,"fileBytes":9}`},
		{Page{Data: []byte("\xff"), Line: 1, Inside: true, Open: true, Cursor: "c", Changed: true}, `"text":"/w==","textEncoding":"base64","line":1,"insideLine":true,"lineGoesOn":true,"cursor":"c","fileBytes":0,"changed":true}`},
	} {
		b, err := json.Marshal(c.v)
		if err != nil || !strings.Contains(string(b), c.want) {
			t.Errorf("%s, want %s: %v", b, c.want, err)
		}
	}
}
