"""Why it is true: claims, certificates, and the methods that decide them. No floats, no torch."""
