# docs/policy.md as the source of jailer-policy(5).
1s/.*/% JAILER-POLICY 5\n\n# NAME\n\njailer-policy - the operator's policy file of jailer(1)\n\n# DESCRIPTION/
/^```/,/^```/!{
s/^## \(.*\)/# \U\1/
s/^### /## /
}
