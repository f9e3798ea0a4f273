"""Record batches of magic 2: headers, records, compression, control batches."""
