package files

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// text is a string of any bytes in a document: as it is where it is UTF-8, else base64.
func text(s string) (value, encoding string) {
	if utf8.ValidString(s) {
		return s, ""
	}
	return base64.StdEncoding.EncodeToString([]byte(s)), "base64"
}

type infoJSON struct {
	V              int    `json:"v,omitempty"`
	Name           string `json:"name"`
	NameEncoding   string `json:"nameEncoding,omitempty"`
	Type           Type   `json:"type"`
	Bytes          int64  `json:"bytes"`
	Mode           string `json:"mode"`
	ModifiedAt     string `json:"modifiedAt"`
	Links          int64  `json:"links"`
	Target         string `json:"target,omitempty"`
	TargetEncoding string `json:"targetEncoding,omitempty"`
}

// stampForm is RFC 3339 in ms, as in all documents.
const stampForm = "2006-01-02T15:04:05.000Z"

func (i Info) json() infoJSON {
	j := infoJSON{
		Type: i.Type, Bytes: i.Size, Mode: fmt.Sprintf("%04o", i.Mode),
		ModifiedAt: i.ModTime.UTC().Format(stampForm), Links: i.Links,
	}
	j.Name, j.NameEncoding = text(i.Name)
	j.Target, j.TargetEncoding = text(i.Target)
	return j
}

// version of the documents.
const version = 1

// MarshalJSON writes the document of one file.
func (i Info) MarshalJSON() ([]byte, error) {
	j := i.json()
	j.V = version
	return json.Marshal(j)
}

// MarshalJSON writes the document of a part of a directory.
func (l Listing) MarshalJSON() ([]byte, error) {
	entries := make([]infoJSON, len(l.Entries))
	for n, i := range l.Entries {
		entries[n] = i.json()
	}
	return json.Marshal(struct {
		V       int        `json:"v"`
		Entries []infoJSON `json:"entries"`
		Cursor  string     `json:"cursor,omitempty"`
	}{version, entries, l.Cursor})
}

// MarshalJSON writes the document of a page.
func (p Page) MarshalJSON() ([]byte, error) {
	data, encoding := text(string(p.Data))
	if encoding == "" {
		encoding = "utf-8"
	}
	return json.Marshal(struct {
		V         int    `json:"v"`
		Text      string `json:"text"`
		Encoding  string `json:"textEncoding"`
		Line      int64  `json:"line"`
		Inside    bool   `json:"insideLine,omitempty"`
		Open      bool   `json:"lineGoesOn,omitempty"`
		Cursor    string `json:"cursor,omitempty"`
		FileBytes int64  `json:"fileBytes"`
		Changed   bool   `json:"changed,omitempty"`
	}{version, data, encoding, p.Line, p.Inside, p.Open, p.Cursor, p.Size, p.Changed})
}
