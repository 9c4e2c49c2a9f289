"""What others may test with: builders of records, and the contract that every store keeps."""
