package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/jailer-project/jailer/internal/seed"
)

// seedFlags name what of the host's goes into the jail. They are the only way in
// which a host path gets there: a request document holds its files itself.
type seedFlags struct{ files, dirs, envFiles []string }

func (f *seedFlags) register(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.files, "file", nil, "copy a file of the host into the jail: `DST=SRC` (repeatable)")
	fs.StringArrayVar(&f.dirs, "dir", nil, "make a directory in the jail: `DST`, or DST=SRC to copy a directory of the host and all below it (repeatable)")
	fs.StringArrayVar(&f.envFiles, "env-file", nil, "set variables from the lines KEY=VALUE of `FILE` (repeatable)")
}

// set opens what the flags name, with the caller's rights.
func (f *seedFlags) set() (s *seed.Set, err error) {
	if len(f.files)+len(f.dirs) == 0 {
		return nil, nil
	}
	s = new(seed.Set)
	defer func() {
		if err != nil {
			s.Close()
			s = nil
		}
	}()
	for _, v := range f.files {
		dst, src, ok := strings.Cut(v, "=")
		if !ok {
			return s, usagef("--file %q: must be DST=SRC", v)
		}
		if err := s.AddFile(dst, src); err != nil {
			return s, err
		}
	}
	for _, v := range f.dirs {
		dst, src, copied := strings.Cut(v, "=")
		if copied {
			err = s.AddTree(dst, src)
		} else {
			err = s.AddDir(dst)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// addEnvFiles adds the variables of --env-file to those of --env. Which of two wins
// is nobody's guess: one name in two places is an error.
func (f *seedFlags) addEnvFiles(env map[string]string) (map[string]string, error) {
	fromFile := map[string]bool{}
	for _, name := range f.envFiles {
		vars, err := seed.ReadEnvFile(name)
		if err != nil {
			return nil, err
		}
		for k, v := range vars {
			if fromFile[k] {
				return nil, usagef("--env-file %q: names a variable that another --env-file sets", name)
			}
			if _, both := env[k]; both {
				return nil, usagef("--env-file %q: names a variable that --env sets", name)
			}
			if env == nil {
				env = map[string]string{}
			}
			env[k], fromFile[k] = v, true
		}
	}
	return env, nil
}
