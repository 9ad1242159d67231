"""What users see, whole: each output of small made runs, and each refusal, as it stood when
somebody last read it, in the folder that is named as its test file.

After a change that is meant, `pytest tests/outputs --force-regen` writes the files anew; read their
diff.
"""
